-- Begins or extends a pause, or ends it. Policies without the section take no part.
--
-- ARGV: 1  Unix microseconds, or '' for the server's clock.
--       2  the milliseconds of the pause, or 0 to end it.
--       then the arguments of the policies.
-- Replies 1.
--@include head
local pause = tonumber(ARGV[2])
--@each read
--@each pause
return 1
