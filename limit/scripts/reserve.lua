-- Decides reservations, in their order, of a single policy that has the sections for them. due sets
-- delay, the microseconds until n permits are free. book takes them and sets receipt, which names the
-- reservation in cancel.lua. write stores the state.
--
-- ARGV: 1  Unix microseconds, or '' for the server's clock.
--       2  the requests, run-length encoded, with the longest delays that they accept:
--          '1*200<0 3*1<5000000'.
--       3  the epoch of a state that begins with this call.
--       4  'o' if no request may overtake one before it, or ''.
--       then the arguments of the policy.
-- Replies {0, answers}: for each request its delay and its receipt, separated by commas. If the delay
-- was too long, it is negative and nothing is reserved. With 'o' that is the last answer, and the
-- report of the policy follows.
--@include head
--@each read
local epoch, ordered = ARGV[3], ARGV[4] == 'o'
local answers, changed, closed = {}, false, false
for text, times, within in string.gmatch(ARGV[2], '(%d+)%*(%d+)<(%d+)') do
  local n = tonumber(text)
  within = tonumber(within)
  for _ = 1, tonumber(times) do
    if closed then
      break
    end
    local delay, receipt
    --@each due
    if delay <= within then
      --@each book
      answers[#answers + 1], changed = format('%d ', delay) .. receipt, true
    else
      answers[#answers + 1], closed = format('%d', -min(delay, 9007199254740992)), ordered
    end
  end
end
if changed then
  --@each write
end
if not ordered then
  return {0, table.concat(answers, ',')}
end
--@each report
return {0, table.concat(answers, ','), report@@}
