-- Returns places of one policy. Those that are not there, since they were returned or their lease has ended, change
-- nothing.
--
-- ARGV: the time, as in acquire.lua, the arguments of the policy, and the places.
-- Replies the number of places that it has removed since their lease had ended.
local places = {unpack(ARGV, @last + 1)}
--@each read
local expired = 0
--@each return
return expired
