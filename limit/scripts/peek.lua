-- Reads the state.
--
-- ARGV: 1  Unix microseconds, or '' for the server's clock.
--       then the arguments of the policies.
-- Replies {0, '*', report, report, ...}, with the reports of the policies.
--@include head
--@once function
--@each read
--@each again
local answers, want = '*', 1
--@each report
return {0, answers, report@@}
