-- Takes free permits of each limiter until at most so many are free: the same number of all policies of a
-- limiter. Policies without the section, whose permits are held or which have none, take no part.
--
-- ARGV: 1  the permits to leave.
--       then the time and the epoch, as in acquire.lua, and the arguments of the policies.
-- Replies {0, '*', report, report, ...}, with the reports of the policies.
local backdate = nil
--@once function
--@each read
--@each again
local epoch = ARGV[@epoch]
local leave, answers, want, granted = ARGV[1] + 0, nil, 1, 0
--@each drain
answers = '*'
--@each expire
--@each report
--@each peek
return {0, '*', report@@}
