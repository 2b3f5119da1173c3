-- internal/include/names.lua
local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
local call, find, match, page = redis.call, string.find, string.match, 256
local DONE, AGAIN, NO_RATE, CORRUPT, PREFETCHED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
-- scripts/recount.lua
local hint, ended
-- internal/include/limiter.lua
local config = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
local rate, interval, rateType, keepAlive = config[1], config[2], config[3], config[4] or '0'
if not (rate and interval and rateType) then
  return {NO_RATE}
end
local valueAt, permitsAt = 2, 3
if rateType == '1' then
  if not KEYS[5] then
    return {NEEDS_KEYS}
  end
  valueAt, permitsAt = 4, 5
elseif rateType ~= '0' then
  return {CORRUPT, 1, 'type', rateType}
end
local valueKey, permitsKey = KEYS[valueAt], KEYS[permitsAt]
local hinted = hint and hint ~= '' and hint == rate .. ' ' .. interval
if not (hinted or #rate < 16 and match(rate, '^%d+$') and match(interval, '^%d+$'))
    or not (keepAlive == '0' or #keepAlive < 16 and match(keepAlive, '^[1-9]%d*$')) then
  if not find(rate, '^%d+$') or (rate + 0 >= 9007199254740992 and rate ~= '9007199254740992') then
    return {CORRUPT, 1, 'rate', rate}
  end
  if not find(interval, '^%d+$') then
    return {CORRUPT, 1, 'interval', interval}
  end
  if keepAlive ~= '0' and not find(keepAlive, '^[1-9]%d*$') or #keepAlive > 15 then
    return {CORRUPT, 1, 'keepAliveTime', keepAlive}
  end
end
rate = rate + 0
-- internal/include/now.lua
local now = ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] .. string.format('%03d', math.floor(time[2] / 1000))
end
-- internal/include/limiter.lua
if not hinted or not ended or ended == '' then
  ended = now - interval
end
-- scripts/recount.lua
local markKey, rateText = not KEYS[5] and KEYS[4], config[1] .. ' ' .. interval
local mark = markKey and redis.pcall('GET', markKey)
local countedRate, countedAt = match(type(mark) == 'string' and mark or '', '^(%d+ %d+) (%d+)$')
if countedRate == rateText and math.abs(now - countedAt) < ARGV[2] + 0 then
  return {DONE, rate, math.min(interval, 9007199254740992), call('PTTL', markKey)}
end
keepAlive = '0' -- a count is no use of the limiter: no TTL gets longer
-- internal/include/value.lua
local stored = call('GET', valueKey)
if stored and stored ~= '0' and not (#stored < 18 and match(stored, '^%-?[1-9]%d*$')) then
  return {CORRUPT, valueAt, '', stored}
end
local value = stored and stored + 0
-- internal/include/window.lua
local ttl = keepAlive == '0' and call('PTTL', KEYS[1])
local expired, setTTL = call('ZCOUNT', permitsKey, '-inf', ended), call('PTTL', permitsKey)
-- scripts/recount.lua
local reply, valid = {DONE, rate, math.min(interval, 9007199254740992), 0}, ARGV[2]
local grants = call('ZCARD', permitsKey)
if grants <= 8192 and (value or grants > 0) then
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
  -- scripts/recount.lua
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
  -- scripts/recount.lua
  end
end
if markKey and (countedRate or not mark) then
  redis.pcall('SET', markKey, rateText .. ' ' .. now, 'PX', valid)
end
return reply
