local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
local call, find, match, page = redis.call, string.find, string.match, 256
local hint, limit = ARGV[3], ARGV[4]
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
local totalText, total = ARGV[5], 1
if totalText and totalText ~= '' then
  total = totalText + 0
else
  totalText = '1'
end
local ttl = keepAlive == '0' and call('PTTL', KEYS[1])
local expired, setTTL = call('ZCOUNT', permitsKey, '-inf', limit), call('PTTL', permitsKey)
local stored = call('GET', valueKey)
if stored and stored ~= '0' and not (#stored < 18 and match(stored, '^%-?[1-9]%d*$')) then
  return {3, valueAt, '', stored}
end
local value = stored and stored + 0
if total > rate then
  local answers, runs = {}, ARGV[8]
  if not runs or runs == '' then
    runs = totalText .. '*1'
  end
  for upTo, text, times in string.gmatch(runs, '(~?)(%d+)%*(%d+)') do
    if upTo == '~' or tonumber(text) <= rate then
      answers = nil
      break
    end
    answers[#answers + 1] = string.rep('x', tonumber(times))
  end
  if answers then
    return {valueAt == 2 and 0 or 5, 0, rate, math.min(interval, 9007199254740992), 0, now + 0, table.concat(answers),
      not hinted and 'due' or ARGV[9] or '', keepAlive + 0}
  end
end
local spent = nil
local grants = setTTL == -2 and 0 or expired > 0 and call('ZCARD', permitsKey) or nil
local dirty, more, wipe, drop = not stored or setTTL ~= -1 and ttl == -1, false, false, 0
if expired == grants then
  wipe = expired > 0
  if value ~= rate then
    value, dirty = rate, true
  end
else
  if expired > 0 then
    more, drop = expired > page, math.min(expired, page)
    local returned, sum = call('ZRANGE', permitsKey, '0', drop > 1 and drop - 1 or '0'), 0
    for i = 1, #returned do
      local a, b, c, d = string.byte(returned[i], -4, -1)
      if not d then
        return {3, permitsAt, 'member', returned[i]}
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
      call('ZREMRANGEBYRANK', permitsKey, '0', drop > 1 and drop - 1 or '0')
      return {1, ''}
    end
    local function count(member)
      local a, b, c, d = string.byte(member, -4, -1)
      return d and a + b * 256 + c * 65536 + d * 16777216
    end
    local inside = (grants or call('ZCARD', permitsKey)) - expired
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
        return {3, permitsAt, 'member', members[i]}
      end
      sum = sum + n
    end
    if stop < inside then
      return {1, string.format('%d %d ', stop, sum) .. newest}
    end
    value = rate - sum
  end
end
local removed, added, score
local counted, cursor = '', hinted and ARGV[9] or ''
if more then
  counted = not hinted and 'due' or cursor
elseif not hinted or value > rate or cursor ~= '' then
  local size, excess = wipe and 0 or grants or call('ZCARD', permitsKey), nil
  local rest, newest, returned = 0, math.huge, stored and value - stored
  if size - drop <= page then
    local function count(member)
      local a, b, c, d = string.byte(member, -4, -1)
      return d and a + b * 256 + c * 65536 + d * 16777216
    end
    counted, excess, grants = 'done', value - rate, size > drop and call('ZRANGE', permitsKey, drop, '-1') or {}
    for i = 1, #grants do
      excess = excess + (count(grants[i]) or 0) -- an invalid member is an error when it expires
    end
  elseif not stored then
    counted = 'done'
  elseif match(cursor, '^cut ') then
    local permits, score = match(cursor, '^cut (%d+) (%-?%d+)$')
    counted, rest, newest = 'again', permits + 0, score + 0
  elseif not hinted or cursor ~= '' then
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
    local byte = string.byte
    for _, list in ipairs(pages) do
      for i = 1, #list do
        local a, b, c, d = byte(list[i], -4, -1)
        sum = sum + (d and a + b * 256 + c * 65536 + d * 16777216 or 0)
      end
    end
    if not complete then
      counted = 'again'
    elseif last then
      excess, earlier = stored + sum - rate, earlier + 0
      counted = excess > 0 and 'again' or 'done'
      if excess > 0 and stored + 0 <= rate and earlier > 0 then
        excess = math.min(excess, earlier)
      elseif excess > 0 and stored + 0 <= rate or excess < 0 and exact == 'y' and excess ~= earlier then
        counted, excess = string.format('found %.0f', excess), nil
      elseif excess < 0 and exact == 'n' then
        excess = nil
      end
    else
      counted = string.format('%s %s %d %.0f %s %s', low, high, members, sum, exact, earlier)
    end
  end
  if excess and excess ~= 0 then
    value, dirty = value - excess, true
    rest = excess > 0 and stored + 0 <= rate and excess or 0
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
    grants = rest > 0 and call('ZRANGE', permitsKey, drop, drop + page - 1, 'WITHSCORES') or {}
    for i = 1, #grants, 2 do
      if rest == 0 or tonumber(grants[i + 1]) > newest then
        break
      end
      local n = count(grants[i])
      if not n then
        return {3, permitsAt, 'member', grants[i]}
      end
      if n > rest then
        removed, added, score, rest = {grants[i]}, resized(grants[i], n - rest), grants[i + 1], 0
      else
        drop, rest = drop + 1, rest - n
      end
    end
    value = value - rest
    if rest > 0 and tonumber(grants[#grants]) <= newest then
      counted = string.format('cut %.0f %.0f', rest, math.min(newest, now))
    end
  end
  if value > rate then
    value, dirty = rate, true
  end
end
local granted, flags, grantedAt = 0, ARGV[7] or '', now
local answers, awaited, above, part
if total <= value then
  granted = total
elseif more then
  flags = nil
elseif ARGV[8] or total > rate then
  answers = {}
  local blocked, ordered, runs = false, find(flags, 'o', 1, true), ARGV[8]
  if not runs or runs == '' then
    runs = totalText .. '*1'
  end
  for upTo, text, times in string.gmatch(runs, '(~?)(%d+)%*(%d+)') do
    local n, fitting = tonumber(text), 0
    times, upTo = tonumber(times), upTo == '~'
    if n > rate and not upTo then
      answers[#answers + 1] = string.rep('x', times)
      above = true
    else
      if not blocked and n <= value - granted then
        fitting = math.min(times, math.floor((value - granted) / n))
        granted = granted + fitting * n
        answers[#answers + 1] = string.rep('g', fitting)
      end
      if upTo and not blocked and fitting < times and granted < value then
        part, granted, fitting = value - granted, value, fitting + 1
        answers[#answers + 1] = 'p'
      end
      if fitting < times then
        answers[#answers + 1] = string.rep('n', times - fitting)
        awaited = math.max(awaited or 0, upTo and 1 or n)
        blocked = ordered
      end
    end
  end
  if awaited and (ordered or find(flags, 'a', 1, true)) then
    awaited = rate
  end
end
if granted > 0 then
  value = value - granted
  if granted == total then
    spent = totalText -- DECRBY, unless dirty
  else
    dirty = true
  end
end
local leased, span = 0, math.min(tonumber(ARGV[11]), math.floor(interval / 16))
local ends = ttl or tonumber(keepAlive)
if granted == total and flags and span > 0 and (ends < 0 or ends >= interval + span) then
  leased = math.min(tonumber(ARGV[10]), math.floor(value / 2), value - math.ceil(rate / 8), 4294967295 - granted)
  leased = math.max(0, leased)
  if leased > 0 then
    value, granted = value - leased, granted + leased
    spent, grantedAt = string.format('%d', granted), string.format('%d', now + span)
  end
end
if dirty then
  call('SET', valueKey, string.format('%d', value))
elseif spent then
  call('DECRBY', valueKey, spent)
end
local failed
if wipe then
  failed = redis.pcall('UNLINK', permitsKey)
elseif drop > 0 then
  failed = redis.pcall('ZREMRANGEBYRANK', permitsKey, '0', drop > 1 and drop - 1 or '0')
end
if granted > 0 and (not failed or type(failed) ~= 'table') then
  local member = ARGV[2]
  if granted ~= total then
    local function resized(member, n)
      return string.sub(member, 1, -5) .. string.char(n % 256, math.floor(n / 256) % 256,
        math.floor(n / 65536) % 256, math.floor(n / 16777216))
    end
    member = resized(member, granted)
  end
  failed = redis.pcall('ZADD', permitsKey, grantedAt, member)
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
  return failed
end
local reply = value
if not flags then
  reply = {1, ''}
elseif granted == 0 and flags == '' and not above and counted == '' then
  reply = -1
elseif answers or flags ~= '' or counted ~= '' then
  reply = {valueAt == 2 and 0 or 5, value, rate, math.min(interval, 9007199254740992), 0, now + 0,
    answers and table.concat(answers) .. (part and '=' .. part or '') or granted < total and 'n' or '*', counted,
    keepAlive + 0}
  if find(flags, 'd', 1, true) then
    local newest = call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2]
    if newest then
      reply[5] = math.min(math.max(0, tonumber(newest) + interval - now), 9007199254740992)
    end
  end
  if awaited and find(flags, 'w', 1, true) then
    local need = awaited - value
    local function count(member)
      local a, b, c, d = string.byte(member, -4, -1)
      return d and a + b * 256 + c * 65536 + d * 16777216
    end
    local last, lastLeased, nowNumber = nil, nil, now + 0
    local leases = call('ZRANGEBYSCORE', permitsKey, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', '0', page)
    local grants = call('ZRANGE', permitsKey, '0', need > 1 and page - 1 or '0', 'WITHSCORES')
    if need == 1 and string.sub(grants[1] or '', -4) == '\0\0\0\0' then
      grants = call('ZRANGE', permitsKey, '0', page - 1, 'WITHSCORES')
    end
    local at, leaseAt = 1, 1
    while need > 0 do
      while grants[at] and tonumber(grants[at + 1]) > nowNumber and string.sub(grants[at], 2, 5) == 'LEAS' do
        at = at + 2
      end
      while leases[leaseAt] and string.sub(leases[leaseAt], 2, 5) ~= 'LEAS' do
        leaseAt = leaseAt + 2
      end
      local wait, lease = grants[at] and tonumber(grants[at + 1]), leases[leaseAt] and tonumber(leases[leaseAt + 1])
      wait = wait and wait + interval - now
      lease = lease and lease - now + math.min(50, interval)
      local n, leased
      if lease and (not wait or lease < wait) then
        n, wait, leaseAt, leased = count(leases[leaseAt]), lease, leaseAt + 2, true
      elseif wait then
        n, at = count(grants[at]), at + 2
      else
        break
      end
      n, wait = n or 0, math.min(math.max(0, wait), 9007199254740992)
      need = need - n
      n = leased and -n or n
      if wait == last and leased == lastLeased then
        reply[#reply] = reply[#reply] + n
      else
        reply[#reply + 1], reply[#reply + 2], last, lastLeased = wait, n, wait, leased
      end
    end
  end
end
if leased > 0 then
  reply = {4, leased, span, rate, math.min(interval, 9007199254740992), value, reply}
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
