-- Corrects drift: the value should be the rate less the permits of all grants in the set. Expired grants
-- count too, since the call that removes them adds their permits to the value. No grant leaves the set.
-- A set of more than 8192 grants stays as it is: one of 8192 takes the server 2 to 3 ms.
--
-- KEYS: 1 configuration   2 value   3 permits   4 this client's value   5 this client's permits.
--       Only the first three if the client expects the limiter to be OVERALL.
-- ARGV: 1  Unix milliseconds, or '' for the server's clock.
-- Replies {DONE, rate, interval}.
-- Other replies as script.lua: {NO_RATE}, {CORRUPT, ...}, {NEEDS_KEYS}.
--@include names
local hint, ended
--@include limiter
keepAlive = '0' -- a count is no use of the limiter: no TTL gets longer
--@include value
--@include window
local grants = call('ZCARD', permitsKey)
if grants <= 8192 and (value or grants > 0) then
  --@include member
  local excess, members = (value or 0) - rate, call('ZRANGE', permitsKey, '0', '-1')
  for i = 1, grants do
    local n = permitsOf(members[i])
    if not n then
      return {CORRUPT, permitsAt, 'member', members[i]}
    end
    excess = excess + n
  end
  if excess ~= 0 or not value then
    call('DECRBY', valueKey, string.format('%.0f', excess)) -- a value keeps its TTL
    --@include expiry
  end
end
return {DONE, rate, math.min(interval, 9007199254740992)}
