-- Reads the state.
--
-- ARGV: the time, as in acquire.lua, and the arguments of the policies.
-- Replies {0, '*', report, report, ...}, with the reports of the policies.
local backdate = nil
--@once function
--@each read
--@each again
local answers, want = '*', 1
--@each report
--@each peek
return {0, answers, report@@}
