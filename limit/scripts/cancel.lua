-- Cancels reservations, except for permits that were reserved after them. undo cancels one, and sets
-- changed.
--
-- ARGV: 1  Unix microseconds, or '' for the server's clock.
--       2  permits and receipt of each, the last reserved first, separated by commas.
--       then the arguments of the policy.
-- Replies 1.
--@include head
--@each read
local changed = false
for text in string.gmatch(ARGV[2], '[^,]+') do
  --@each undo
end
if changed then
  --@each write
end
return 1
