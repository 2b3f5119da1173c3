-- Returns places of one policy. Those that are not there, since they were returned or their lease has ended, change
-- nothing.
--
-- ARGV: 1  Unix microseconds, or '' for the server's clock.
--       then the arguments of the policy, and the places.
-- Replies 1.
--@include head
local places = {unpack(ARGV, @last + 1)}
--@each read
--@each return
return 1
