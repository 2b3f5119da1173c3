local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
local call, find, match, page = redis.call, string.find, string.match, 256
local hint, limit
local config = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
local rate, interval, kind, keepAlive = config[1], config[2], config[3], config[4] or '0'
if not (rate and interval and kind) then
  return {2}
end
local valueAt, permitsAt = 2, 3
if kind == '1' then
  if not KEYS[4] then
    return {6}
  end
  valueAt, permitsAt = 4, 5
elseif kind ~= '0' then
  return {3, 1, 'type', kind}
end
local valueKey, permitsKey = KEYS[valueAt], KEYS[permitsAt]
local hinted = hint and hint ~= '' and hint == rate .. ' ' .. interval
if not (hinted or #rate < 16 and match(rate, '^%d+$') and match(interval, '^%d+$'))
    or not (keepAlive == '0' or #keepAlive < 16 and match(keepAlive, '^[1-9]%d*$')) then
  if not find(rate, '^%d+$') or (rate + 0 >= 9007199254740992 and rate ~= '9007199254740992') then
    return {3, 1, 'rate', rate}
  end
  if not find(interval, '^%d+$') then
    return {3, 1, 'interval', interval}
  end
  if keepAlive ~= '0' and not find(keepAlive, '^[1-9]%d*$') or #keepAlive > 15 then
    return {3, 1, 'keepAliveTime', keepAlive}
  end
end
rate = rate + 0
local now = ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] .. string.format('%03d', math.floor(time[2] / 1000))
end
if not hinted or not limit or limit == '' then
  limit = now - interval
end
local stored = call('GET', valueKey)
if stored and stored ~= '0' and not (#stored < 18 and match(stored, '^%-?[1-9]%d*$')) then
  return {3, valueAt, '', stored}
end
local value = stored and stored + 0
local free = value
local first, final = 'ZRANGE', 'ZREVRANGE'
if not value then
  first, final = final, first
end
local begin = call(first, permitsKey, '0', '0', 'WITHSCORES')
if not begin[1] then
  return {0, rate}
end
local newest = value and call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2] or begin[2]
if tonumber(newest) <= limit then
  return {0, rate}
end
local skip, sum, mark = string.match(ARGV[6] or '', '^(%d+) (%d+) (.*)$')
if mark == begin[1] then
  skip, sum = tonumber(skip), tonumber(sum)
else
  skip, sum = 0, 0
end
local function count(member)
  local a, b, c, d = string.byte(member, -4, -1)
  return d and a + b * 256 + c * 65536 + d * 16777216
end
local grants = call(first, permitsKey, skip, skip + page - 1, 'WITHSCORES')
local done = #grants < page * 2
for i = 1, #grants, 2 do
  local expired = tonumber(grants[i + 1]) <= limit
  if expired ~= (value ~= false) then
    done = true
    break
  end
  local n = count(grants[i])
  if not n then
    return {3, permitsAt, 'member', grants[i]}
  end
  sum = sum + n
end
if not done then
  return {1, string.format('%d %d ', skip + page, sum) .. begin[1]}
end
free = value and value + sum or rate - sum
return {0, math.max(0, math.min(rate, free))}
