-- Takes permits, whether they are free or not.
--
-- ARGV: 1  Unix microseconds, or '' for the server's clock.
--       2  the permits.
--       3  the epoch of a state that begins with this call.
--       then the arguments of the policies.
-- Replies {0, '*', report, report, ...}, with the reports of the policies.
--@include head
--@each read
--@each again
local granted, epoch, answers, want = ARGV[2] + 0, ARGV[3], nil, 1
--@each take
--@each report
return {0, '*', report@@}
