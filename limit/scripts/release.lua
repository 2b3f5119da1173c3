-- Returns permits, at most those that are taken. With receipts it is a refund. Policies without the
-- section take no part.
--
-- ARGV: 1  the permits.
--       2  of a refund, the milliseconds since the reply of its grant, rounded down; else ''.
--       then the time, as in acquire.lua, and the arguments of the policies, and of a refund the receipts,
--          one for each policy.
-- Replies 1.
local backdate = nil
--@each read
--@each unit again
local n, age = tonumber(ARGV[1]), ARGV[2]
local receipts = {unpack(ARGV, @last + 1)}
--@each release
return 1
