-- Takes permits, whether they are free or not.
--
-- ARGV: 1  the permits.
--       then the time and the epoch, as in acquire.lua, and the arguments of the policies.
-- Replies {0, '*', report, report, ...}, with the reports of the policies.
local backdate = nil
--@each read
--@each again
local epoch = ARGV[@epoch]
local granted, answers, want = ARGV[1] + 0, nil, 1
--@each charge take
--@each expire
--@each report
return {0, '*', report@@}
