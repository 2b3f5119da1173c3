-- Takes free permits of each limiter until at most so many are free: the same number of all policies of a
-- limiter. Policies without the section, whose permits are held or which have none, take no part.
--
-- ARGV: 1  Unix microseconds, or '' for the server's clock.
--       2  the permits to leave.
--       3  the epoch of a state that begins with this call.
--       then the arguments of the policies.
-- Replies {0, '*', report, report, ...}, with the reports of the policies.
--@include head
--@once function
--@each read
--@each again
local leave, epoch, answers, want, granted = ARGV[2] + 0, ARGV[3], nil, 1, 0
--@each drain
answers = '*'
--@each report
return {0, '*', report@@}
