-- Begins or extends a pause, or ends it. Policies without the section take no part.
--
-- ARGV: 1  the milliseconds of the pause, or 0 to end it.
--       then the time, as in acquire.lua, and the arguments of the policies.
-- Replies 1.
local backdate = nil
local pause = tonumber(ARGV[1])
--@each read
--@each pause
return 1
