-- Takes free permits until at most so many are free.
--
-- KEYS: 1 configuration   2 value   3 permits   4 this client's value   5 this client's permits.
--       Only the first three if the client expects the limiter to be OVERALL.
-- ARGV: 1  Unix milliseconds, or '' for the server's clock.
--       2  a member of 0 permits, which gets those of the grant.
--       3  the permits to leave.
-- Replies {DONE, free, rate, interval, reset, now, keepAlive, wait, permits, ...}: the numbers are those of
-- script.lua, with the wait until a permit is free.
-- Other replies as script.lua: {AGAIN, ''}, {NO_RATE}, {CORRUPT, ...}, {NEEDS_KEYS}.
--@include names
local hint, ended
--@include limiter
--@include value
--@include window
--@include reclaim
--@include cap
-- One grant holds at most 4294967295 permits.
local total, granted, grantedAt = -1, 0, now
if not more then
  granted = math.max(0, math.min(4294967295, value - ARGV[3]))
end
if granted > 0 then
  value, spent = value - granted, string.format('%d', granted)
end
--@include store
--@include grant
--@include checked
local reply = {AGAIN, ''}
if not more then
  local newest = call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2]
  local reset = newest and math.min(math.max(0, tonumber(newest) + interval - now), 9007199254740992) or 0
  reply = {DONE, value, rate, math.min(interval, 9007199254740992), reset, now + 0, keepAlive + 0}
  local need = 1 - value
  if need > 0 then
    --@include waits
  end
end
--@include expiry
return reply
