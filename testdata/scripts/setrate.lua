-- internal/include/names.lua
local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
local call, find, match, page = redis.call, string.find, string.match, 256
local DONE, AGAIN, NO_RATE, CORRUPT, PREFETCHED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
-- scripts/setrate.lua
local interval, keepAlive, ttl, setTTL = tonumber(ARGV[3]), ARGV[5], -1, 0
local keep = find(ARGV[6], 'k', 1, true)
local old = call('HMGET', KEYS[1], 'rate', 'type', 'keepAliveTime')
if find(ARGV[6], 'e', 1, true) and call('EXISTS', KEYS[1]) == 0 then
  return 0
end
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
    -- internal/include/member.lua
    local function permitsOf(member)
      local a, b, c, d = string.byte(member, -4, -1)
      return d and a + b * 256 + c * 65536 + d * 16777216
    end
    local function grantOf(member)
      return string.sub(member, 1, -5)
    end
    local function prefetchOf(member)
      return string.sub(member, 2, 5) == 'LEAS' and string.sub(member, 2, 9) or nil
    end
    local function resized(member, n)
      return grantOf(member) .. string.char(n % 256, math.floor(n / 256) % 256, math.floor(n / 65536) % 256,
        math.floor(n / 16777216))
    end
    -- scripts/setrate.lua
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
    value = rate - used
  elseif stored and tonumber(old[1]) then
    value = math.min(rate, tonumber(stored) + rate - tonumber(old[1]))
  end
end
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
-- internal/include/expiry.lua
local stateTTL
if keepAlive ~= '0' then
  call('PEXPIRE', KEYS[1], keepAlive)
  stateTTL = keepAlive + 1
elseif ttl >= 0 and ttl < 1e15 then
  stateTTL = ttl + 1
end
if stateTTL then
  if valueAt == 4 then
    stateTTL = stateTTL + math.min(interval, 1e15) + 86400000
  end
  call('PEXPIRE', valueKey, stateTTL)
  call('PEXPIRE', permitsKey, stateTTL)
elseif setTTL >= 0 then
  call('PERSIST', permitsKey)
end
-- scripts/setrate.lua
return 1
