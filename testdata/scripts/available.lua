-- internal/include/names.lua
local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
local call, find, match, page = redis.call, string.find, string.match, 256
local DONE, AGAIN, NO_RATE, CORRUPT, PREFETCHED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
-- scripts/available.lua
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
-- internal/include/value.lua
local stored = call('GET', valueKey)
if stored and stored ~= '0' and not (#stored < 18 and match(stored, '^%-?[1-9]%d*$')) then
  return {CORRUPT, valueAt, '', stored}
end
local value = stored and stored + 0
-- scripts/available.lua
local free = value
local first, final = 'ZRANGE', 'ZREVRANGE'
if not value then
  first, final = final, first
end
local begin = call(first, permitsKey, '0', '0', 'WITHSCORES')
if not begin[1] then
  return {DONE, rate}
end
local newest = value and call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2] or begin[2]
if tonumber(newest) <= ended then
  return {DONE, rate}
end
local skip, sum, mark = string.match(ARGV[6] or '', '^(%d+) (%d+) (.*)$')
if mark == begin[1] then
  skip, sum = tonumber(skip), tonumber(sum)
else
  skip, sum = 0, 0
end
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
-- scripts/available.lua
local grants = call(first, permitsKey, skip, skip + page - 1, 'WITHSCORES')
local done = #grants < page * 2
for i = 1, #grants, 2 do
  local expired = tonumber(grants[i + 1]) <= ended
  if expired ~= (value ~= false) then
    done = true
    break
  end
  local n = permitsOf(grants[i])
  if not n then
    return {CORRUPT, permitsAt, 'member', grants[i]}
  end
  sum = sum + n
end
if not done then
  return {AGAIN, string.format('%d %d ', skip + page, sum) .. begin[1]}
end
free = value and value + sum or rate - sum
return {DONE, math.max(0, math.min(rate, free))}
