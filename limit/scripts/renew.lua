-- Prolongs the leases of places of one policy, from now on.
--
-- ARGV: 1  Unix microseconds, or '' for the server's clock.
--       then the arguments of the policy, and the places.
-- Replies {0, i, ...}: the places whose lease has ended, or that are not there, from 1 on. They are unchanged.
--@include head
local places = {unpack(ARGV, @last + 1)}
--@each read
local ended = {0}
--@each renew
return ended
