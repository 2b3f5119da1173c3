local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
local call, find, match, page = redis.call, string.find, string.match, 256
local DONE, AGAIN, NO_RATE, CORRUPT, LEASED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
local hint, ended
local config = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
local rate, interval, rateType, keepAlive = config[1], config[2], config[3], config[4] or '0'
if not (rate and interval and rateType) then
  return {NO_RATE}
end
local valueAt, permitsAt = 2, 3
if rateType == '1' then
  if not KEYS[4] then
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
local now = ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] .. string.format('%03d', math.floor(time[2] / 1000))
end
if not hinted or not ended or ended == '' then
  ended = now - interval
end
keepAlive = '0'
local stored = call('GET', valueKey)
if stored and stored ~= '0' and not (#stored < 18 and match(stored, '^%-?[1-9]%d*$')) then
  return {CORRUPT, valueAt, '', stored}
end
local value = stored and stored + 0
local ttl = keepAlive == '0' and call('PTTL', KEYS[1])
local expired, setTTL = call('ZCOUNT', permitsKey, '-inf', ended), call('PTTL', permitsKey)
local spent = nil
local size = setTTL == -2 and 0 or expired > 0 and call('ZCARD', permitsKey) or nil
local dirty, more, wipe, drop = not stored or setTTL ~= -1 and ttl == -1, false, false, 0
if expired == size then
  wipe = expired > 0
  if value ~= rate then
    value, dirty = rate, true
  end
else
  if expired > 0 then
    more, drop = expired > page, math.min(expired, page)
    local returned, sum = call('ZRANGE', permitsKey, '0', drop - 1), 0
    for i = 1, #returned do
      local a, b, c, d = string.byte(returned[i], -4, -1)
      if not d then
        return {CORRUPT, permitsAt, 'member', returned[i]}
      end
      sum = sum + a + b * 256 + c * 65536 + d * 16777216
    end
    dirty = true
    if value then
      value = value + sum
    end
  end
  if not value then
    if more then
      call('ZREMRANGEBYRANK', permitsKey, '0', drop - 1)
      return {AGAIN, ''}
    end
    local function count(member)
      local a, b, c, d = string.byte(member, -4, -1)
      return d and a + b * 256 + c * 65536 + d * 16777216
    end
    local inside = (size or call('ZCARD', permitsKey)) - expired
    local newest = call('ZRANGE', permitsKey, '-1', '-1')[1]
    local skip, sum, mark = string.match(ARGV[6] or '', '^(%d+) (%d+) (.*)$')
    if mark == newest and tonumber(skip) <= inside then
      skip, sum = tonumber(skip), tonumber(sum)
    else
      skip, sum = 0, 0
    end
    local stop = math.min(skip + page, inside)
    local members = stop > skip and call('ZREVRANGE', permitsKey, skip, stop - 1) or {}
    for i = 1, #members do
      local n = count(members[i])
      if not n then
        return {CORRUPT, permitsAt, 'member', members[i]}
      end
      sum = sum + n
    end
    if stop < inside then
      return {AGAIN, string.format('%d %d ', stop, sum) .. newest}
    end
    value = rate - sum
  end
end
local removed, added, score
size = wipe and 0 or size or call('ZCARD', permitsKey)
local cursor, mark = match(ARGV[6] or '', '^([^\n]*)\n(.*)$')
local following, settled, replaced = nil, 1, mark and not call('ZSCORE', permitsKey, mark)
cursor = cursor or ARGV[6] or ''
local rest, newest, returned = 0, math.huge, stored and value - stored -- by expired grants
if more and replaced then
  settled = 0
elseif more then
  following = cursor -- once the expired grants of this page are removed
elseif size - drop <= page then
  local function count(member)
    local a, b, c, d = string.byte(member, -4, -1)
    return d and a + b * 256 + c * 65536 + d * 16777216
  end
  local excess, members = value - rate, size > drop and call('ZRANGE', permitsKey, drop, '-1') or {}
  for i = 1, #members do
    excess = excess + (count(members[i]) or 0) -- an invalid member is an error when it expires
  end
  if excess ~= 0 then
    local rest = excess > 0 and stored + 0 <= rate and math.max(0, stored + excess - value) or 0
    value, dirty = value - excess + rest, true
    if rest > 0 then
      local function resized(member, n)
        return string.sub(member, 1, -5) .. string.char(n % 256, math.floor(n / 256) % 256,
          math.floor(n / 65536) % 256, math.floor(n / 16777216))
      end
      local newest, oldest = math.huge, call('ZRANGE', permitsKey, drop, '-1', 'WITHSCORES')
      for i = 1, #oldest, 2 do
        if rest == 0 or tonumber(oldest[i + 1]) > newest then
          break
        end
        local n = count(oldest[i])
        if not n then
          return {CORRUPT, permitsAt, 'member', oldest[i]}
        end
        if n > rest then
          removed, added, score, rest = {oldest[i]}, resized(oldest[i], n - rest), oldest[i + 1], 0
        else
          drop, rest = drop + 1, rest - n
        end
      end
    end
  end
elseif stored and replaced then
  settled = 0
elseif stored and match(cursor, '^cut ') then
  local permits, score = match(cursor, '^cut (%d+) (%-?%d+)$')
  settled, rest, newest = 0, permits + 0, score + 0
elseif stored then -- otherwise the value was counted from the set
  local low, high, members, sum, exact, earlier = match(cursor, '^(%S+) (%S+) (%d+) (%d+) ([yn]) (%-?%d+)$')
  local complete, pages = true, {}
  if low then
    local present = call('ZCOUNT', permitsKey, low, high)
    complete, exact = present >= members + 0, present > members + 0 and 'n' or exact
    members, sum = present, sum + 0
  else
    high = call('ZREVRANGE', permitsKey, page, page, 'WITHSCORES')[2]
    low, members, sum, exact, earlier = '(' .. high, 0, 0, 'y', match(cursor, '^found (%-?%d+)$') or '0'
  end
  local newer = call('ZCOUNT', permitsKey, '(' .. high, '+inf')
  if newer > page * 2 then
    local top = call('ZREVRANGE', permitsKey, newer - page, newer - page, 'WITHSCORES')[2]
    local n = call('ZCOUNT', permitsKey, '(' .. high, top)
    if n <= page * 2 then
      pages[1] = call('ZREVRANGE', permitsKey, newer - n, newer - 1)
      high, members, newer = top, members + n, newer - n
    end
  end
  local first = newer + members
  local bottom = call('ZREVRANGE', permitsKey, first + page - 1, first + page - 1, 'WITHSCORES')[2]
  local last = not bottom and newer <= page * 2
  if bottom or last then
    local n = bottom and call('ZCOUNT', permitsKey, bottom, high) - members or size - first
    low, members, complete = bottom or '-inf', members + n, complete and n <= page * 2
    pages[#pages + 1] = complete and n > 0 and call('ZREVRANGE', permitsKey, first, first + n - 1) or nil
  end
  if last and newer > 0 then
    pages[#pages + 1] = call('ZREVRANGE', permitsKey, '0', newer - 1)
  end
  local function count(member)
    local a, b, c, d = string.byte(member, -4, -1)
    return d and a + b * 256 + c * 65536 + d * 16777216
  end
  for _, list in ipairs(pages) do
    for i = 1, #list do
      sum = sum + (count(list[i]) or 0)
    end
  end
  if not complete then
    settled = 0
  elseif not last then
    following = string.format('%s %s %d %.0f %s %s', low, high, members, sum, exact, earlier)
  else
    local excess = stored + sum - rate
    earlier = earlier + 0
    if excess > 0 then
      settled = 0
    end
    if excess > 0 and stored + 0 <= rate and earlier > 0 then
      excess = math.min(excess, earlier)
    elseif excess > 0 and stored + 0 <= rate or excess < 0 and exact == 'y' and excess ~= earlier then
      following, excess = string.format('found %.0f', excess), 0
    elseif excess < 0 and exact == 'n' then
      excess = 0
    end
    if excess ~= 0 then
      value, dirty = value - excess, true
      rest = excess > 0 and stored + 0 <= rate and excess or 0
    end
  end
end
if rest > 0 then
  local function count(member)
    local a, b, c, d = string.byte(member, -4, -1)
    return d and a + b * 256 + c * 65536 + d * 16777216
  end
  local function resized(member, n)
    return string.sub(member, 1, -5) .. string.char(n % 256, math.floor(n / 256) % 256,
      math.floor(n / 65536) % 256, math.floor(n / 16777216))
  end
  rest = math.max(0, rest - returned)
  value, dirty = value + rest, true
  local oldest = rest > 0 and call('ZRANGE', permitsKey, drop, drop + page - 1, 'WITHSCORES') or {}
  for i = 1, #oldest, 2 do
    if rest == 0 or tonumber(oldest[i + 1]) > newest then
      break
    end
    local n = count(oldest[i])
    if not n then
      return {CORRUPT, permitsAt, 'member', oldest[i]}
    end
    if n > rest then
      removed, added, score, rest = {oldest[i]}, resized(oldest[i], n - rest), oldest[i + 1], 0
    else
      drop, rest = drop + 1, rest - n
    end
  end
  value = value - rest
  if rest > 0 and tonumber(oldest[#oldest]) <= newest then
    following = string.format('cut %.0f %.0f', rest, math.min(newest, now))
  end
end
if value > rate then
  value, dirty = rate, true
end
mark = following and call('ZREVRANGE', permitsKey, page, page)[1]
if mark then
  following = following .. '\n' .. mark
end
local reply = following and {AGAIN, following} or {DONE, settled, rate, math.min(interval, 9007199254740992)}
if dirty then
  call('SET', valueKey, string.format('%d', value))
elseif spent then
  call('DECRBY', valueKey, spent)
end
local failed
if wipe then
  failed = redis.pcall('UNLINK', permitsKey)
elseif drop > 0 then
  failed = redis.pcall('ZREMRANGEBYRANK', permitsKey, '0', drop - 1)
end
if removed and type(failed) ~= 'table' then
  if added then
    failed = redis.pcall('ZADD', permitsKey, score, added)
  end
  if type(failed) ~= 'table' then
    failed = redis.pcall('ZREM', permitsKey, unpack(removed))
  end
end
if failed and failed ~= 1 and type(failed) == 'table' then
  call('SET', valueKey, '0', 'PX', '1')
  redis.pcall('UNLINK', valueKey)
  return failed
end
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
return reply
