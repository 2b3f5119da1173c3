-- Sets the rate, whether the limiter has one or not.
--
-- KEYS: 1 configuration   2 value   3 permits   4 this client's value   5 this client's permits.
-- ARGV: 1  Unix milliseconds, or '' for the server's clock.
--       2 to 5  rate, interval, type, keepAliveTime.
--       6  flags: e  only if the limiter exists.
--                 k  keep the grants.
-- Replies 1 if it set the rate, 0 if not, or {CORRUPT, key, field, text}.
--@include names
local interval, keepAlive, ttl, setTTL = tonumber(ARGV[3]), ARGV[5], -1, 0
local keep = find(ARGV[6], 'k', 1, true)
local old = call('HMGET', KEYS[1], 'rate', 'type', 'keepAliveTime')
if find(ARGV[6], 'e', 1, true) and call('EXISTS', KEYS[1]) == 0 then
  return 0
end
-- The TTL of the old keepAliveTime would delete a limiter that no longer expires.
local stays = keepAlive == '0' and (tonumber(old[3] or '0') or 0) > 0
if keepAlive == '0' and not stays then
  ttl = call('PTTL', KEYS[1])
end
local valueAt, permitsAt = 2, 3
if ARGV[4] == '1' then
  valueAt, permitsAt = 4, 5
end
local valueKey, permitsKey = KEYS[valueAt], KEYS[permitsAt]
local value, expired
-- If the configuration was lost, the rest of the state still counts.
if keep and (not old[2] or old[2] == ARGV[4]) then
  local rate, now = tonumber(ARGV[2]), tonumber(ARGV[1])
  if not now then
    local time = call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  local stored = call('GET', valueKey)
  if stored and not find(stored, '^%-?%d+$') then
    return {CORRUPT, valueAt, '', stored}
  end
  if call('ZCARD', permitsKey) <= page then
    --@include member
    local grants, used = call('ZRANGE', permitsKey, '0', '-1', 'WITHSCORES'), 0
    expired = 0
    for i = 1, #grants, 2 do
      local n = permitsOf(grants[i])
      if not n then
        return {CORRUPT, permitsAt, 'member', grants[i]}
      end
      if tonumber(grants[i + 1]) <= now - interval then
        expired = expired + 1
      else
        used = used + n
      end
    end
    -- Below 0 if more permits are taken than the new rate: they return before any permit is
    -- granted.
    value = rate - used
  elseif stored and tonumber(old[1]) then
    -- The grants are too many for one call. The old rate and value give the number of their
    -- permits. Later calls return those that have expired by the new interval.
    value = math.min(rate, tonumber(stored) + rate - tonumber(old[1]))
  end
end
-- Without a value, permits are counted from the set, for the old rate and for the new one. So the
-- writes can stop anywhere.
call('UNLINK', valueKey)
call('HSET', KEYS[1], 'rate', ARGV[2], 'interval', ARGV[3], 'type', ARGV[4], 'keepAliveTime', ARGV[5])
if keepAlive ~= '0' then
  call('PEXPIRE', KEYS[1], keepAlive)
elseif stays then
  call('PERSIST', KEYS[1])
end
if old[2] ~= ARGV[4] and (old[2] or not keep) then
  call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
  return 1
end
if not keep then
  call('UNLINK', permitsKey)
  return 1
end
if expired and expired > 0 then
  call('ZREMRANGEBYRANK', permitsKey, '0', expired - 1)
end
if value then
  call('SET', valueKey, value)
end
--@include expiry
return 1
