-- Prolongs the leases of places of one policy, from now on.
--
-- ARGV: the time, as in acquire.lua, the arguments of the policy, and the places.
-- Replies {0, i, ...}: the places whose lease has ended, or that are not there, from 1 on. They are unchanged.
local places = {unpack(ARGV, @last + 1)}
--@each read
local ended = {0}
--@each renew
return ended
