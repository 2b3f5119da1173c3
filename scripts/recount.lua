-- Corrects drift: the value should be the rate less the permits of all grants in the set. Expired grants
-- count too, since the call that removes them adds their permits to the value. No grant leaves the set.
-- A set of more than 8192 grants stays as it is: one of 8192 takes the server 2 to 3 ms.
--
-- The Clients of an OVERALL limiter share their counts by a mark. It has the rate, the interval and the
-- time of the last count, which may have met a member of another format. A count that fails otherwise leaves
-- no mark. A key of another format stays as it is, and its Clients share no counts.
--
-- KEYS: 1 configuration   2 value   3 permits   4 this client's value   5 this client's permits.
--       If the client expects the limiter to be OVERALL, only the first three, or these and 4 the mark.
-- ARGV: 1  Unix milliseconds, or '' for the server's clock.
--       2  with a mark: how long it is valid, in milliseconds.
-- Replies {DONE, rate, interval, left}: left is 0 if this call has counted, otherwise the milliseconds for
-- which the count of another Client is enough.
-- Other replies as script.lua: {NO_RATE}, {CORRUPT, ...}, {NEEDS_KEYS}.
--@include names
local hint, ended
--@include limiter
local markKey, rateText = not KEYS[5] and KEYS[4], config[1] .. ' ' .. interval
local mark = markKey and redis.pcall('GET', markKey)
local countedRate, countedAt = match(type(mark) == 'string' and mark or '', '^(%d+ %d+) (%d+)$')
if countedRate == rateText and math.abs(now - countedAt) < ARGV[2] + 0 then
  return {DONE, rate, math.min(interval, 9007199254740992), call('PTTL', markKey)}
end
keepAlive = '0' -- a count is no use of the limiter: no TTL gets longer
--@include value
--@include window
local reply, valid = {DONE, rate, math.min(interval, 9007199254740992), 0}, ARGV[2]
local grants = call('ZCARD', permitsKey)
if grants <= 8192 and (value or grants > 0) then
  --@include member
  local excess, members = (value or 0) - rate, call('ZRANGE', permitsKey, '0', '-1')
  for i = 1, grants do
    local n = permitsOf(members[i])
    if not n then
      reply, valid, excess = {CORRUPT, permitsAt, 'member', members[i]}, '1000', 0
      break
    end
    excess = excess + n
  end
  if reply[1] == DONE and (excess ~= 0 or not value) then
    call('DECRBY', valueKey, string.format('%.0f', excess)) -- a value keeps its TTL
    --@include expiry
  end
end
if markKey and (countedRate or not mark) then
  redis.pcall('SET', markKey, rateText .. ' ' .. now, 'PX', valid)
end
return reply
