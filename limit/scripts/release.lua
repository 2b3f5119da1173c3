-- Returns permits, at most those that are taken. With receipts it is a refund. Policies without the
-- section take no part.
--
-- ARGV: 1  Unix microseconds, or '' for the server's clock.
--       2  the permits.
--       then the arguments of the policies, and of a refund the receipts, one for each policy.
-- Replies 1.
--@include head
--@each read
--@each again
local n, receipts = tonumber(ARGV[2]), {unpack(ARGV, @last + 1)}
--@each release
return 1
