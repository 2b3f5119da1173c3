---- acquire
-- limit/scripts/include/clock.lua
local ARGV = ARGV
local now = ARGV[2]
local call = redis.call
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local max = math.max
now = max(0, now)
local floor = math.floor
local millis = floor(now / 1000)
-- limit/scripts/acquire.lua
local backdate = tonumber(ARGV[10 + 3] or '')
-- limit/redisson.lua, function
local match = string.match
local KEYS = KEYS
local function redisson(KEYS, ARGV)
  -- internal/include/names.lua
  local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
  local call, find, match, page = redis.call, string.find, string.match, 256
  local DONE, AGAIN, NO_RATE, CORRUPT, PREFETCHED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
  -- limit/redisson.lua, function
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
  -- internal/include/window.lua
  local ttl = keepAlive == '0' and call('PTTL', KEYS[1])
  local expired, setTTL = call('ZCOUNT', permitsKey, '-inf', ended), call('PTTL', permitsKey)
  -- internal/include/reclaim.lua
  local spent = nil
  local size = setTTL == -2 and 0 or expired > 0 and call('ZCARD', permitsKey) or nil
  local dirty, more, wipe, drop = not stored or setTTL ~= -1 and ttl == -1, false, false, 0
  if expired == size then
    wipe = expired > 0
    if value ~= rate then
      value, dirty = rate, true
    end
  elseif expired > 0 or not value then
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
    -- internal/include/reclaim.lua
    if expired > 0 then
      more, drop = expired > page, math.min(expired, page)
      local returned, sum = call('ZRANGE', permitsKey, '0', drop - 1), 0
      for i = 1, #returned do
        local n = permitsOf(returned[i])
        if not n then
          return {CORRUPT, permitsAt, 'member', returned[i]}
        end
        sum = sum + n
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
        local n = permitsOf(members[i])
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
  -- internal/include/cap.lua
  if value > rate then
    value, dirty = rate, true
  end
  -- limit/redisson.lua, function
  local limiter = {free = value, most = rate, more = more, interval = interval}
  function limiter.settle(granted)
    local total, reply, grantedAt = -1, false, now
    if granted > 0 then
      value, spent = value - granted, string.format('%d', granted)
    end
    -- internal/include/store.lua
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
    -- internal/include/grant.lua
    if granted > 0 and (not failed or type(failed) ~= 'table') then
      local member = ARGV[2]
      if granted ~= total then
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
        -- internal/include/grant.lua
        member = resized(member, granted)
      end
      failed = redis.pcall('ZADD', permitsKey, grantedAt, member)
    end
    -- internal/include/checked.lua
    if failed and failed ~= 1 and type(failed) == 'table' then
      call('SET', valueKey, '0', 'PX', '1')
      redis.pcall('UNLINK', valueKey)
      return failed
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
    -- limit/redisson.lua, function
    return reply
  end
  function limiter.report(want)
    local newest = call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2]
    local reset = newest and math.min(math.max(0, tonumber(newest) + interval - now), 9007199254740992) or 0
    local report = {now, rate, math.min(interval, 9007199254740992), value, reset, keepAlive + 0}
    if want > value then
      local reply, need = report, rate + 1 - value
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
      -- internal/include/waits.lua
      local last, lastPrefetched, nowNumber = nil, nil, now + 0
      local prefetches = call('ZRANGEBYSCORE', permitsKey, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', '0', page)
      local oldest = call('ZRANGE', permitsKey, '0', need > 1 and page - 1 or '0', 'WITHSCORES')
      if need == 1 and oldest[1] and permitsOf(oldest[1]) == 0 then
        oldest = call('ZRANGE', permitsKey, '0', page - 1, 'WITHSCORES')
      end
      local at, prefetchAt = 1, 1
      while need > 0 do
        while oldest[at] and tonumber(oldest[at + 1]) > nowNumber and prefetchOf(oldest[at]) do
          at = at + 2
        end
        while prefetches[prefetchAt] and not prefetchOf(prefetches[prefetchAt]) do
          prefetchAt = prefetchAt + 2
        end
        local wait, prefetch = oldest[at] and tonumber(oldest[at + 1]), prefetches[prefetchAt] and tonumber(prefetches[prefetchAt + 1])
        wait = wait and wait + interval - now
        prefetch = prefetch and prefetch - now + math.min(50, interval)
        local n, prefetched
        if prefetch and (not wait or prefetch < wait) then
          n, wait, prefetchAt, prefetched = permitsOf(prefetches[prefetchAt]), prefetch, prefetchAt + 2, true
        elseif wait then
          n, at = permitsOf(oldest[at]), at + 2
        else
          break
        end
        n, wait = n or 0, math.min(math.max(0, wait), 9007199254740992)
        need = need - n
        n = prefetched and -n or n
        if wait == last and prefetched == lastPrefetched then
          reply[#reply] = reply[#reply] + n
        else
          reply[#reply + 1], reply[#reply + 2], last, lastPrefetched = wait, n, wait, prefetched
        end
      end
    -- limit/redisson.lua, function
    end
    return report
  end
  return limiter
end
-- limit/fixedwindow.lua, read
local most1, count1, left1, text1 = ARGV[4] + 0, call('GET', KEYS[1]), false, ''
if count1 and count1 ~= '0' and (not match(count1, '^[1-9]%d*$') or #count1 > 16) then
  return {3, 1, count1}
end
local free1 = most1 - (count1 or 0)
-- limit/redisson.lua, read
local format = string.format
local text2 = format('%d', millis)
local limiter2 = redisson({KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]},
  {text2, ARGV[6], nil, nil, nil, ARGV[7]})
if limiter2[1] == 1 then
  return {1, format('%d', now), 2, limiter2[2]}
elseif limiter2[1] then
  table.insert(limiter2, 2, 2)
  return limiter2
end
local free2, most2 = limiter2.free, limiter2.most
-- limit/tokenbucket.lua, read
local most3, refill3, interval3 = ARGV[8] + 0, ARGV[9] + 0, ARGV[10] + 0
local at3, missing3, refunded3, extra3, early3, epoch3, other3 = now, 0, 0, 0, 0, false, false
local text3 = call('GET', KEYS[7]) or ''
local ceil = math.ceil
if text3 ~= '' then
  local word, at, taken, part, rate, rest = match(text3, '^(%w+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  local refunded, extra = match(rest or '', '^ (%d+) ?(-?%d*)$')
  if not word or #at > 18 or max(#taken, #part, #rate) > 16
      or rest ~= '' and (not refunded or max(#refunded, #extra) > 99) then
    return {3, 3, text3}
  end
  at3, missing3 = at + 0, tonumber(taken, 10) * interval3 + part
  if refunded then
    refunded3 = tonumber(refunded .. '.')
    extra3 = tonumber(extra .. '.') or 0
  end
  if rate ~= ARGV[9] or refunded and extra ~= '' then
    other3 = rate + 0
    extra3 = extra3 + max(0, now - at3) * (refill3 - other3)
  end
  if at3 < now then
    local full = at3 + ceil(missing3 / refill3)
    if backdate and full < now then
      at3, missing3 = max(full, now - backdate), 0
      early3 = (now - at3) * refill3
    else
      missing3, at3 = max(0, missing3 - (now - at3) * refill3), now
    end
  end
  epoch3 = missing3 > 0 and word
end
local fmod = math.fmod
local part3 = fmod(missing3, interval3)
local taken3 = floor((missing3 - part3) / interval3 + 0.5)
local free3 = most3 - taken3 - (part3 > 0 and 1 or 0) + floor(early3 / interval3)
-- limit/scripts/acquire.lua
local min = math.min
local total, free, most, credit = ARGV[1] + 0, min(free1, free2, free3), min(most1, most2, most3), 9007199254740992
local amount, flags, runs = ARGV[1], ARGV[10 + 1], ARGV[10 + 2]
local epoch = ARGV[3]
local granted, answers, above, want, missed = 0, nil, false, 0, nil
-- limit/redisson.lua, more
if total > free and limiter2.more then
  return limiter2.settle(0) or {1, format('%d', now)}
end
-- limit/scripts/acquire.lua
if total <= free and (total <= credit or not runs and credit >= 0) then
  granted = total
elseif runs or total > most then
  local ordered = flags == 'do'
  want, runs = ordered and most or 0, runs or ARGV[1] .. '*1'
  -- internal/include/decide.lua
  answers = {}
  local closed, part = false, ''
  for upTo, text, times in string.gmatch(runs, '(~?)(%d+)%*(%d+)') do
    local n, got = tonumber(text), 0
    times = tonumber(times)
    if n > most and upTo == '' then
      answers[#answers + 1] = string.rep('x', times)
      above = true
    else
      if not closed and n <= free - granted and granted <= credit then
        got = math.min(times, math.floor((free - granted) / n), math.floor((credit - granted) / n) + 1)
        granted = granted + got * n
        answers[#answers + 1] = string.rep('g', got)
      end
      local rest = free - granted
      if upTo ~= '' and got < times and rest >= 1 and rest < n and granted <= credit then
        answers[#answers + 1], part, got, granted = 'p', string.format(' %d', rest), got + 1, free
      end
      if got < times then
        answers[#answers + 1] = string.rep('n', times - got)
        if not missed then
          missed = upTo == '' and n or 1
        end
        want = math.max(want, upTo == '' and n or 1)
        closed = ordered
      end
    end
  end
  answers = table.concat(answers) .. part
  -- limit/scripts/acquire.lua
  amount = string.format('%d', granted)
else
  answers, want = 'n', total
end
local prefetched, span = nil, ARGV[10 + 5]
if span and span ~= '' then
  prefetched, span = 0, tonumber(span)
  -- limit/fixedwindow.lua, length
  local length1 = ARGV[5]
  -- limit/fixedwindow.lua, prefetch
  if not count1 then
    -- limit/fixedwindow.lua, begin
    left1 = ARGV[5]
  -- limit/fixedwindow.lua, prefetch
  end
  span = min(span, floor(length1 / 16), count1 and call('PTTL', KEYS[1]) or left1 + 0)
  -- limit/scripts/acquire.lua
  if granted == total and span > 0 then
    prefetched = max(0, min(tonumber(ARGV[10 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + prefetched
    amount = string.format('%d', granted)
  end
end
-- limit/redisson.lua, settle
do
  local failed = (not answers or match(answers, '[gnp]')) and limiter2.settle(granted)
  if failed then
    return failed
  end
end
-- limit/tokenbucket.lua, settle
if granted == 0 and other3 and epoch3 then
  -- limit/tokenbucket.lua, life
  local life = max(1, min(9007199254740, ceil((missing3 / refill3 + (at3 - now)) / 1000) + 1000))
  -- limit/tokenbucket.lua, settle
  if call('PTTL', KEYS[7]) < life - 1000 then
    -- limit/tokenbucket.lua, write
    part3 = fmod(missing3, interval3)
    taken3 = floor((missing3 - part3) / interval3 + 0.5)
    if missing3 > 0 then
      -- limit/tokenbucket.lua, life
      local life = max(1, min(9007199254740, ceil((missing3 / refill3 + (at3 - now)) / 1000) + 1000))
      -- limit/tokenbucket.lua, write
      text3 = format('%s %d %d %d %d', epoch3, at3, taken3, part3, other3 or refill3)
      if other3 then
        text3, life = text3 .. format(' %.0f %.0f', refunded3, extra3), max(call('PTTL', KEYS[7]), life)
      elseif refunded3 > 0 then
        text3 = text3 .. format(' %.0f', refunded3)
      end
      call('SET', KEYS[7], text3, 'PX', format('%d', life))
    else
      text3 = ''
      call('UNLINK', KEYS[7])
    end
  -- limit/tokenbucket.lua, settle
  end
end
-- limit/scripts/acquire.lua
if granted > 0 then
  -- limit/fixedwindow.lua, take
  if count1 then
    count1 = call('INCRBY', KEYS[1], amount)
  else
    -- limit/fixedwindow.lua, begin
    left1 = ARGV[5]
    -- limit/fixedwindow.lua, take
    call('SET', KEYS[1], amount, 'PX', left1)
    count1, text1 = granted, 'new'
  end
  -- limit/tokenbucket.lua, take
  if not epoch3 then
    epoch3, refunded3, extra3, other3 = epoch, 0, 0, false
  end
  missing3 = min(9007199254740992 * interval3, missing3 + granted * interval3)
  -- limit/tokenbucket.lua, write
  part3 = fmod(missing3, interval3)
  taken3 = floor((missing3 - part3) / interval3 + 0.5)
  if missing3 > 0 then
    -- limit/tokenbucket.lua, life
    local life = max(1, min(9007199254740, ceil((missing3 / refill3 + (at3 - now)) / 1000) + 1000))
    -- limit/tokenbucket.lua, write
    text3 = format('%s %d %d %d %d', epoch3, at3, taken3, part3, other3 or refill3)
    if other3 then
      text3, life = text3 .. format(' %.0f %.0f', refunded3, extra3), max(call('PTTL', KEYS[7]), life)
    elseif refunded3 > 0 then
      text3 = text3 .. format(' %.0f', refunded3)
    end
    call('SET', KEYS[7], text3, 'PX', format('%d', life))
  else
    text3 = ''
    call('UNLINK', KEYS[7])
  end
-- limit/scripts/acquire.lua
end
if (not flags or flags == '') and not above and not prefetched then
  if granted == total then
    return {text1, text2, text3}
  elseif granted == 0 then
    return -1
  end
end
-- limit/fixedwindow.lua, left
if count1 and not left1 then
  left1 = call('PTTL', KEYS[1])
  if left1 == 0 then
    left1 = 1
  end
end
-- limit/fixedwindow.lua, expire
if left1 == -1 then
  -- limit/fixedwindow.lua, begin
  left1 = ARGV[5]
  -- limit/fixedwindow.lua, expire
  call('PEXPIRE', KEYS[1], left1)
end
-- limit/fixedwindow.lua, left
if count1 and not left1 then
  left1 = call('PTTL', KEYS[1])
  if left1 == 0 then
    left1 = 1
  end
end
-- limit/fixedwindow.lua, report
local report1 = {text1, (count1 or 0) + 0, (left1 or 0) + 0}
-- limit/redisson.lua, report
local report2 = limiter2.report(want)
-- limit/tokenbucket.lua, report
local report3 = {text3, taken3, part3, at3 - now}
-- limit/scripts/acquire.lua
if prefetched then
  return {0, answers or '*', report1, report2, report3, prefetched, span}
end
return {0, answers or '*', report1, report2, report3}

---- wait
-- limit/scripts/include/clock.lua
local ARGV = ARGV
local now = ARGV[2]
local call = redis.call
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local max = math.max
now = max(0, now)
local floor = math.floor
local millis = floor(now / 1000)
-- limit/scripts/acquire.lua
local backdate = tonumber(ARGV[10 + 3] or '')
local KEYS = KEYS
local waiters, id, late = KEYS[8], ARGV[10 + 6], ARGV[10 + 7] + 0
local rest, lead, permit = ARGV[10 + 8] + 0, ARGV[10 + 9] + 0, ARGV[10 + 10] + 0
-- internal/include/rivals.lua
local clock = 'the most advanced clock of the Clients whose callers wait for the limiter'
local time, server, ahead, moved = redis.pcall('TIME'), now, nil, 0
if time[1] then
  server = time[1] * 1000000 + time[2]
end
local offset = now - server
local ceil = math.ceil
if time[1] and max(offset, -offset) <= 6e12 then
  local latest, tenth = tonumber(redis.pcall('ZSCORE', waiters, clock)), floor(server / 100000) % 65536
  local line = offset
  if latest then
    latest = latest - 4e15
    line = floor(latest / 65536) * 100 - max(0, (tenth - latest) % 65536 - 80) * 50000
  end
  if offset >= line - 5000 then
    ahead = ceil(max(offset, line) / 100) * 65536 + tenth
    ahead = ahead ~= latest and 4e15 + ahead -- else it is as it was
  end
  moved = max(0, line - offset)
  now = now + moved
end
local t = floor(server / 1000)
local overdue = time[1] and redis.pcall('ZRANGEBYSCORE', waiters, '549755813888', '(' .. t, 'LIMIT', '0', '16') or {}
if time[1] and not overdue[1] then
  overdue = redis.pcall('ZRANGEBYSCORE', waiters, t + 8000, '(10000000000000', 'LIMIT', '0', '16')
end
local marked = false
for i = 1, #overdue do
  local of = string.sub(overdue[i], 1, -2)
  if of ~= id then
    local got = floor(tonumber(redis.pcall('ZSCORE', waiters, of)) or 0)
    redis.pcall('ZADD', waiters, 1e14 + got, of, 1e13 + t, overdue[i])
    marked = true
  end
end
local first = time[1] and redis.pcall('ZRANGEBYSCORE', waiters, '0', '(549755813888', 'WITHSCORES', 'LIMIT', '0', '2') or {}
local isFirst = first[1] == id
local rival, least = first[isFirst and 3 or 1], floor(first[isFirst and 4 or 2] or 0)
local others = rival or moved > 5000
if marked or not rival and (tonumber(redis.pcall('ZCOUNT', waiters, 1e14, 2e14)) or 0) > 0 then
  others = true
  -- internal/include/gone.lua
  local gone = redis.pcall('ZRANGEBYSCORE', waiters, 1e13, '(' .. 1e13 + t - 3000, 'LIMIT', '0', '32')
  for i = 1, #gone do
    redis.pcall('ZREM', waiters, gone[i], string.sub(gone[i], 1, -2))
  end
-- internal/include/rivals.lua
end
-- limit/redisson.lua, function
local match = string.match
local function redisson(KEYS, ARGV)
  -- internal/include/names.lua
  local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
  local call, find, match, page = redis.call, string.find, string.match, 256
  local DONE, AGAIN, NO_RATE, CORRUPT, PREFETCHED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
  -- limit/redisson.lua, function
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
  -- internal/include/window.lua
  local ttl = keepAlive == '0' and call('PTTL', KEYS[1])
  local expired, setTTL = call('ZCOUNT', permitsKey, '-inf', ended), call('PTTL', permitsKey)
  -- internal/include/reclaim.lua
  local spent = nil
  local size = setTTL == -2 and 0 or expired > 0 and call('ZCARD', permitsKey) or nil
  local dirty, more, wipe, drop = not stored or setTTL ~= -1 and ttl == -1, false, false, 0
  if expired == size then
    wipe = expired > 0
    if value ~= rate then
      value, dirty = rate, true
    end
  elseif expired > 0 or not value then
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
    -- internal/include/reclaim.lua
    if expired > 0 then
      more, drop = expired > page, math.min(expired, page)
      local returned, sum = call('ZRANGE', permitsKey, '0', drop - 1), 0
      for i = 1, #returned do
        local n = permitsOf(returned[i])
        if not n then
          return {CORRUPT, permitsAt, 'member', returned[i]}
        end
        sum = sum + n
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
        local n = permitsOf(members[i])
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
  -- internal/include/cap.lua
  if value > rate then
    value, dirty = rate, true
  end
  -- limit/redisson.lua, function
  local limiter = {free = value, most = rate, more = more, interval = interval}
  function limiter.settle(granted)
    local total, reply, grantedAt = -1, false, now
    if granted > 0 then
      value, spent = value - granted, string.format('%d', granted)
    end
    -- internal/include/store.lua
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
    -- internal/include/grant.lua
    if granted > 0 and (not failed or type(failed) ~= 'table') then
      local member = ARGV[2]
      if granted ~= total then
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
        -- internal/include/grant.lua
        member = resized(member, granted)
      end
      failed = redis.pcall('ZADD', permitsKey, grantedAt, member)
    end
    -- internal/include/checked.lua
    if failed and failed ~= 1 and type(failed) == 'table' then
      call('SET', valueKey, '0', 'PX', '1')
      redis.pcall('UNLINK', valueKey)
      return failed
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
    -- limit/redisson.lua, function
    return reply
  end
  function limiter.report(want)
    local newest = call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2]
    local reset = newest and math.min(math.max(0, tonumber(newest) + interval - now), 9007199254740992) or 0
    local report = {now, rate, math.min(interval, 9007199254740992), value, reset, keepAlive + 0}
    if want > value then
      local reply, need = report, rate + 1 - value
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
      -- internal/include/waits.lua
      local last, lastPrefetched, nowNumber = nil, nil, now + 0
      local prefetches = call('ZRANGEBYSCORE', permitsKey, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', '0', page)
      local oldest = call('ZRANGE', permitsKey, '0', need > 1 and page - 1 or '0', 'WITHSCORES')
      if need == 1 and oldest[1] and permitsOf(oldest[1]) == 0 then
        oldest = call('ZRANGE', permitsKey, '0', page - 1, 'WITHSCORES')
      end
      local at, prefetchAt = 1, 1
      while need > 0 do
        while oldest[at] and tonumber(oldest[at + 1]) > nowNumber and prefetchOf(oldest[at]) do
          at = at + 2
        end
        while prefetches[prefetchAt] and not prefetchOf(prefetches[prefetchAt]) do
          prefetchAt = prefetchAt + 2
        end
        local wait, prefetch = oldest[at] and tonumber(oldest[at + 1]), prefetches[prefetchAt] and tonumber(prefetches[prefetchAt + 1])
        wait = wait and wait + interval - now
        prefetch = prefetch and prefetch - now + math.min(50, interval)
        local n, prefetched
        if prefetch and (not wait or prefetch < wait) then
          n, wait, prefetchAt, prefetched = permitsOf(prefetches[prefetchAt]), prefetch, prefetchAt + 2, true
        elseif wait then
          n, at = permitsOf(oldest[at]), at + 2
        else
          break
        end
        n, wait = n or 0, math.min(math.max(0, wait), 9007199254740992)
        need = need - n
        n = prefetched and -n or n
        if wait == last and prefetched == lastPrefetched then
          reply[#reply] = reply[#reply] + n
        else
          reply[#reply + 1], reply[#reply + 2], last, lastPrefetched = wait, n, wait, prefetched
        end
      end
    -- limit/redisson.lua, function
    end
    return report
  end
  return limiter
end
-- limit/scripts/acquire.lua
if others then -- whose callers have waited, if these have not
  backdate, millis = max(backdate, 10000), floor(now / 1000)
end
-- limit/fixedwindow.lua, read
local most1, count1, left1, text1 = ARGV[4] + 0, call('GET', KEYS[1]), false, ''
if count1 and count1 ~= '0' and (not match(count1, '^[1-9]%d*$') or #count1 > 16) then
  return {3, 1, count1}
end
local free1 = most1 - (count1 or 0)
-- limit/redisson.lua, read
local format = string.format
local text2 = format('%d', millis)
local limiter2 = redisson({KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]},
  {text2, ARGV[6], nil, nil, nil, ARGV[7]})
if limiter2[1] == 1 then
  return {1, format('%d', now), 2, limiter2[2]}
elseif limiter2[1] then
  table.insert(limiter2, 2, 2)
  return limiter2
end
local free2, most2 = limiter2.free, limiter2.most
-- limit/tokenbucket.lua, read
local most3, refill3, interval3 = ARGV[8] + 0, ARGV[9] + 0, ARGV[10] + 0
local at3, missing3, refunded3, extra3, early3, epoch3, other3 = now, 0, 0, 0, 0, false, false
local text3 = call('GET', KEYS[7]) or ''
if text3 ~= '' then
  local word, at, taken, part, rate, rest = match(text3, '^(%w+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  local refunded, extra = match(rest or '', '^ (%d+) ?(-?%d*)$')
  if not word or #at > 18 or max(#taken, #part, #rate) > 16
      or rest ~= '' and (not refunded or max(#refunded, #extra) > 99) then
    return {3, 3, text3}
  end
  at3, missing3 = at + 0, tonumber(taken, 10) * interval3 + part
  if refunded then
    refunded3 = tonumber(refunded .. '.')
    extra3 = tonumber(extra .. '.') or 0
  end
  if rate ~= ARGV[9] or refunded and extra ~= '' then
    other3 = rate + 0
    extra3 = extra3 + max(0, now - at3) * (refill3 - other3)
  end
  if at3 < now then
    local full = at3 + ceil(missing3 / refill3)
    if backdate and full < now then
      at3, missing3 = max(full, now - backdate), 0
      early3 = (now - at3) * refill3
    else
      missing3, at3 = max(0, missing3 - (now - at3) * refill3), now
    end
  end
  epoch3 = missing3 > 0 and word
end
local fmod = math.fmod
local part3 = fmod(missing3, interval3)
local taken3 = floor((missing3 - part3) / interval3 + 0.5)
local free3 = most3 - taken3 - (part3 > 0 and 1 or 0) + floor(early3 / interval3)
-- limit/scripts/acquire.lua
local min = math.min
local total, free, most, credit = ARGV[1] + 0, min(free1, free2, free3), min(most1, most2, most3), 9007199254740992
local holds, reach = true, 0
-- limit/redisson.lua, lead
lead, permit = max(1, min(lead, floor(most2 * 250 / limiter2.interval))), min(permit, limiter2.interval / most2)
-- internal/include/share.lua
local known, open = tonumber(redis.pcall('ZSCORE', waiters, id)), max(0, min(free, credit + 1))
local stays = known and known < 1e14
local own, held, slow = stays and floor(known) or 0, 0, 0
if rival and (open > 0 or not stays) then
  local clients = (tonumber(redis.pcall('ZCOUNT', waiters, '0', '(549755813888')) or 1) + (stays and 0 or 1)
  if not stays then
    own = known and min(known - 1e14, least + 4 * lead + 8) or least + (lead > 1 and ceil(lead / clients) or 0)
  end
  own = max(own, least - 4 * lead - 8)
  local share, asked = least - own + ceil((lead + open) / clients), min(total, open)
  if share < asked then
    local behind = call('ZRANGEBYSCORE', waiters, '0', '(' .. own + ceil(reach * open / clients), 'WITHSCORES', 'LIMIT', '0', '8')
    local wanted = 0
    for i = 2, #behind, 2 do
      local wants = #behind == 16 and 1023 or 1023 - fmod(behind[i], 1) * 1024
      wanted = wanted + (wants == 1023 and open or behind[i - 1] ~= id and wants or 0)
    end
    share = max(share, open - wanted)
  end
  local due = share < asked and holds and tonumber(redis.pcall('ZSCORE', waiters, rival .. '!')) or 0
  if due >= t then
    held = min(floor(due) + 1 - t, max(5, ceil(5 * permit), min(100, ceil((asked - share) * permit))))
    slow = fmod(due, 1) * 2048000
    credit = min(credit, share - 1)
  end
end
-- limit/scripts/acquire.lua
local amount, flags, runs = ARGV[1], ARGV[10 + 1], ARGV[10 + 2]
local epoch = ARGV[3]
local granted, answers, above, want, missed = 0, nil, false, 0, nil
-- limit/redisson.lua, more
if total > free and limiter2.more then
  return limiter2.settle(0) or {1, format('%d', now)}
end
-- limit/scripts/acquire.lua
if total <= free and (total <= credit or not runs and credit >= 0) then
  granted = total
  want = 1 -- for the next call
elseif runs or total > most then
  local ordered = flags == 'do'
  want, runs = ordered and most or 0, runs or ARGV[1] .. '*1'
  -- internal/include/decide.lua
  answers = {}
  local closed, part = false, ''
  for upTo, text, times in string.gmatch(runs, '(~?)(%d+)%*(%d+)') do
    local n, got = tonumber(text), 0
    times = tonumber(times)
    if n > most and upTo == '' then
      answers[#answers + 1] = string.rep('x', times)
      above = true
    else
      if not closed and n <= free - granted and granted <= credit then
        got = math.min(times, math.floor((free - granted) / n), math.floor((credit - granted) / n) + 1)
        granted = granted + got * n
        answers[#answers + 1] = string.rep('g', got)
      end
      local rest = free - granted
      if upTo ~= '' and got < times and rest >= 1 and rest < n and granted <= credit then
        answers[#answers + 1], part, got, granted = 'p', string.format(' %d', rest), got + 1, free
      end
      if got < times then
        answers[#answers + 1] = string.rep('n', times - got)
        if not missed then
          missed = upTo == '' and n or 1
        end
        want = math.max(want, upTo == '' and n or 1)
        closed = ordered
      end
    end
  end
  answers = table.concat(answers) .. part
  -- limit/scripts/acquire.lua
  amount = string.format('%d', granted)
else
  answers, want = 'n', total
end
local prefetched, span = nil, ARGV[10 + 5]
if span and span ~= '' then
  prefetched, span = 0, tonumber(span)
  -- limit/fixedwindow.lua, length
  local length1 = ARGV[5]
  -- limit/fixedwindow.lua, prefetch
  if not count1 then
    -- limit/fixedwindow.lua, begin
    left1 = ARGV[5]
  -- limit/fixedwindow.lua, prefetch
  end
  span = min(span, floor(length1 / 16), count1 and call('PTTL', KEYS[1]) or left1 + 0)
  -- limit/scripts/acquire.lua
  if granted == total and span > 0 then
    prefetched = max(0, min(tonumber(ARGV[10 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + prefetched
    amount = string.format('%d', granted)
  end
end
-- limit/redisson.lua, settle
do
  local failed = (not answers or match(answers, '[gnp]')) and limiter2.settle(granted)
  if failed then
    return failed
  end
end
-- limit/tokenbucket.lua, settle
if granted == 0 and other3 and epoch3 then
  -- limit/tokenbucket.lua, life
  local life = max(1, min(9007199254740, ceil((missing3 / refill3 + (at3 - now)) / 1000) + 1000))
  -- limit/tokenbucket.lua, settle
  if call('PTTL', KEYS[7]) < life - 1000 then
    -- limit/tokenbucket.lua, write
    part3 = fmod(missing3, interval3)
    taken3 = floor((missing3 - part3) / interval3 + 0.5)
    if missing3 > 0 then
      -- limit/tokenbucket.lua, life
      local life = max(1, min(9007199254740, ceil((missing3 / refill3 + (at3 - now)) / 1000) + 1000))
      -- limit/tokenbucket.lua, write
      text3 = format('%s %d %d %d %d', epoch3, at3, taken3, part3, other3 or refill3)
      if other3 then
        text3, life = text3 .. format(' %.0f %.0f', refunded3, extra3), max(call('PTTL', KEYS[7]), life)
      elseif refunded3 > 0 then
        text3 = text3 .. format(' %.0f', refunded3)
      end
      call('SET', KEYS[7], text3, 'PX', format('%d', life))
    else
      text3 = ''
      call('UNLINK', KEYS[7])
    end
  -- limit/tokenbucket.lua, settle
  end
end
-- limit/scripts/acquire.lua
if granted > 0 then
  -- limit/fixedwindow.lua, take
  if count1 then
    count1 = call('INCRBY', KEYS[1], amount)
  else
    -- limit/fixedwindow.lua, begin
    left1 = ARGV[5]
    -- limit/fixedwindow.lua, take
    call('SET', KEYS[1], amount, 'PX', left1)
    count1, text1 = granted, 'new'
  end
  -- limit/tokenbucket.lua, take
  if not epoch3 then
    epoch3, refunded3, extra3, other3 = epoch, 0, 0, false
  end
  missing3 = min(9007199254740992 * interval3, missing3 + granted * interval3)
  -- limit/tokenbucket.lua, write
  part3 = fmod(missing3, interval3)
  taken3 = floor((missing3 - part3) / interval3 + 0.5)
  if missing3 > 0 then
    -- limit/tokenbucket.lua, life
    local life = max(1, min(9007199254740, ceil((missing3 / refill3 + (at3 - now)) / 1000) + 1000))
    -- limit/tokenbucket.lua, write
    text3 = format('%s %d %d %d %d', epoch3, at3, taken3, part3, other3 or refill3)
    if other3 then
      text3, life = text3 .. format(' %.0f %.0f', refunded3, extra3), max(call('PTTL', KEYS[7]), life)
    elseif refunded3 > 0 then
      text3 = text3 .. format(' %.0f', refunded3)
    end
    call('SET', KEYS[7], text3, 'PX', format('%d', life))
  else
    text3 = ''
    call('UNLINK', KEYS[7])
  end
-- limit/scripts/acquire.lua
end
if (not flags or flags == '') and not above and not prefetched then
  if granted == total then
    return {text1, text2, text3}
  elseif granted == 0 then
    return -1
  end
end
-- limit/fixedwindow.lua, left
if count1 and not left1 then
  left1 = call('PTTL', KEYS[1])
  if left1 == 0 then
    left1 = 1
  end
end
-- limit/fixedwindow.lua, expire
if left1 == -1 then
  -- limit/fixedwindow.lua, begin
  left1 = ARGV[5]
  -- limit/fixedwindow.lua, expire
  call('PEXPIRE', KEYS[1], left1)
end
-- limit/fixedwindow.lua, left
if count1 and not left1 then
  left1 = call('PTTL', KEYS[1])
  if left1 == 0 then
    left1 = 1
  end
end
-- limit/fixedwindow.lua, report
local report1 = {text1, (count1 or 0) + 0, (left1 or 0) + 0}
-- limit/redisson.lua, report
local report2 = limiter2.report(want)
-- limit/tokenbucket.lua, report
local report3 = {text3, taken3, part3, at3 - now}
-- limit/scripts/acquire.lua
local next, batch, window, ends, drips = 0, nil, 0, 0, false
-- limit/fixedwindow.lua, length
local length1 = ARGV[5]
-- limit/fixedwindow.lua, next
if (missed or 1) > most1 - (count1 or 0) then
  next = max(next, (left1 or 0) * 1000)
end
if not batch or most1 < batch then
  batch, window, ends = most1, length1 + 0, (left1 or 0) + 0
end
-- limit/redisson.lua, next
if not batch or most2 < batch then
  batch, window = most2, limiter2.interval + 0
end
do
  local need, i = (missed or 1) - report2[4], 7
  while need > 0 and report2[i] do
    next, need, i = max(next, report2[i] * 1000), need - math.abs(report2[i + 1]), i + 2
  end
end
-- limit/tokenbucket.lua, next
next = max(next, (((missed or 1) - most3) * interval3 + missing3) / refill3)
drips = true
-- internal/include/record.lua
own = min(549755813887, own + granted)
local wants, due, lag = total + rest - granted, t, 0
local large = window > 0 and lead >= 4 * (total + rest)
local comeBack = rival and large and wants == 0 and open > granted
wants = comeBack and total or wants
if large and wants > 0 then
  wants = max(ceil(wants * max(1, window / late)), stays and 1023 - fmod(known, 1) * 1024 or 0)
end
local score = own + (1023 - min(1023, wants)) / 1024
if score ~= known then
  redis.pcall('ZADD', waiters, score, id)
end
local before = rival and tonumber(redis.pcall('ZRANK', waiters, id)) or 0
local left, need = max(0, open - granted), -1
if batch and not drips then
  need = max(0, before - 8) * (reach > 0 and 1 or min(batch, total + rest)) - left
  lag = max(0, floor(need / batch)) * window + min(before, 1) * min(10, permit) + min(before, 20) * min(1, permit / 25)
else
  lag = min(before * min(15, permit) + max(0, before - 4) * min(10, permit), 250)
end
if left == 0 then
  held = 0
elseif need >= 0 then
  held = ends > 0 and ends or next > 0 and ceil(next / 1000) or window
elseif held > 0 or wants == 0 then
  held, lag = granted < total and held or 0, 0
end
if held > 0 then
  due = t + min(5000, held + ceil(lag)) + late
elseif comeBack then
  due = t + late
elseif rival and wants == 0 and left == 0 and ends > 0 then
  due = t + min(5000, ends) + late
elseif wants > 0 then
  due = t + min(5000, max(0, ceil(next / 1000)) + ceil(lag)) + late
end
due = due + late / 2048
if not known and before > (batch and not drips and 0 or 8) then -- a new Client
  redis.pcall('ZADD', waiters, 1e14 + own, id)
  due = due + 1e13
  -- internal/include/gone.lua
  local gone = redis.pcall('ZRANGEBYSCORE', waiters, 1e13, '(' .. 1e13 + t - 3000, 'LIMIT', '0', '32')
  for i = 1, #gone do
    redis.pcall('ZREM', waiters, gone[i], string.sub(gone[i], 1, -2))
  end
-- internal/include/record.lua
end
if ahead then
  redis.pcall('ZADD', waiters, due, id .. '!', ahead, clock)
else
  redis.pcall('ZADD', waiters, due, id .. '!')
end
redis.pcall('PEXPIRE', waiters, '8000')
-- limit/scripts/acquire.lua
if not prefetched then
  return {0, answers or '*', report1, report2, report3, others and 1 or 0, held * 1000, slow, lag * 1000, moved}
end
do
  return {0, answers or '*', report1, report2, report3, prefetched, span, others and 1 or 0, held * 1000, slow, lag * 1000, moved}
end
if prefetched then
  return {0, answers or '*', report1, report2, report3, prefetched, span}
end
return {0, answers or '*', report1, report2, report3}

---- release
-- limit/scripts/include/clock.lua
local ARGV = ARGV
local now = ARGV[3]
local call = redis.call
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local max = math.max
now = max(0, now)
-- limit/scripts/release.lua
local backdate = nil
-- limit/fixedwindow.lua, read
local KEYS = KEYS
local most1, count1, left1, text1 = ARGV[4] + 0, call('GET', KEYS[1]), false, ''
local match = string.match
if count1 and count1 ~= '0' and (not match(count1, '^[1-9]%d*$') or #count1 > 16) then
  return {3, 1, count1}
end
-- limit/tokenbucket.lua, read
local most3, refill3, interval3 = ARGV[8] + 0, ARGV[9] + 0, ARGV[10] + 0
local at3, missing3, refunded3, extra3, early3, epoch3, other3 = now, 0, 0, 0, 0, false, false
local text3 = call('GET', KEYS[7]) or ''
local ceil = math.ceil
if text3 ~= '' then
  local word, at, taken, part, rate, rest = match(text3, '^(%w+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  local refunded, extra = match(rest or '', '^ (%d+) ?(-?%d*)$')
  if not word or #at > 18 or max(#taken, #part, #rate) > 16
      or rest ~= '' and (not refunded or max(#refunded, #extra) > 99) then
    return {3, 3, text3}
  end
  at3, missing3 = at + 0, tonumber(taken, 10) * interval3 + part
  if refunded then
    refunded3 = tonumber(refunded .. '.')
    extra3 = tonumber(extra .. '.') or 0
  end
  if rate ~= ARGV[9] or refunded and extra ~= '' then
    other3 = rate + 0
    extra3 = extra3 + max(0, now - at3) * (refill3 - other3)
  end
  if at3 < now then
    local full = at3 + ceil(missing3 / refill3)
    if backdate and full < now then
      at3, missing3 = max(full, now - backdate), 0
      early3 = (now - at3) * refill3
    else
      missing3, at3 = max(0, missing3 - (now - at3) * refill3), now
    end
  end
  epoch3 = missing3 > 0 and word
end
local fmod = math.fmod
local part3 = fmod(missing3, interval3)
local floor = math.floor
local taken3 = floor((missing3 - part3) / interval3 + 0.5)
-- limit/scripts/release.lua
local n, age = tonumber(ARGV[1]), ARGV[2]
local receipts = {unpack(ARGV, 10 + 1)}
-- limit/fixedwindow.lua, release
local format = string.format
if count1 then
  local left, receipt = call('PTTL', KEYS[1]), receipts[1] or ''
  local own, took = age == '', match(receipt, '^%+(%d+)$')
  if took then
    -- limit/fixedwindow.lua, length
    local length1 = ARGV[5]
    -- limit/fixedwindow.lua, release
    own = left >= 0 and length1 - left >= age + took
  elseif not own then
    own = left >= 0 and left <= (tonumber(receipt) or 0) - age * 0.999
  end
  if own then
    if n < count1 + 0 then
      call('INCRBY', KEYS[1], format('%d', -n))
    else
      call('UNLINK', KEYS[1])
    end
  end
end
-- limit/tokenbucket.lua, release
do
  local receipt = receipts[3]
  local due = n * interval3
  local min = math.min
  if receipt then
    local word, at, taken, part, rest = match(receipt, '^(%w+) (%d+) (%d+) (%d+) %d+(.*)$')
    if word and word == epoch3 then
      local before, extra = match(rest, '^ (%d+) ?(-?%d*)')
      local refilled = (at3 - at) * (other3 or refill3) + extra3 - (tonumber((extra or '') .. '.') or 0)
      before = tonumber((before or '0') .. '.')
      due = min(due, max(due, tonumber(taken, 10) * interval3 + part - refunded3 + before) - refilled)
    else
      due = 0
    end
  end
  due = min(due, missing3)
  if due > 0 then
    missing3, refunded3 = missing3 - due, refunded3 + due
    -- limit/tokenbucket.lua, write
    part3 = fmod(missing3, interval3)
    taken3 = floor((missing3 - part3) / interval3 + 0.5)
    if missing3 > 0 then
      -- limit/tokenbucket.lua, life
      local life = max(1, min(9007199254740, ceil((missing3 / refill3 + (at3 - now)) / 1000) + 1000))
      -- limit/tokenbucket.lua, write
      text3 = format('%s %d %d %d %d', epoch3, at3, taken3, part3, other3 or refill3)
      if other3 then
        text3, life = text3 .. format(' %.0f %.0f', refunded3, extra3), max(call('PTTL', KEYS[7]), life)
      elseif refunded3 > 0 then
        text3 = text3 .. format(' %.0f', refunded3)
      end
      call('SET', KEYS[7], text3, 'PX', format('%d', life))
    else
      text3 = ''
      call('UNLINK', KEYS[7])
    end
  -- limit/tokenbucket.lua, release
  end
end
-- limit/scripts/release.lua
return 1

---- peek
-- limit/scripts/include/clock.lua
local ARGV = ARGV
local now = ARGV[1]
local call = redis.call
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local max = math.max
now = max(0, now)
local floor = math.floor
local millis = floor(now / 1000)
-- limit/scripts/peek.lua
local backdate = nil
-- limit/redisson.lua, function
local match = string.match
local KEYS = KEYS
local function redisson(KEYS, ARGV)
  -- internal/include/names.lua
  local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
  local call, find, match, page = redis.call, string.find, string.match, 256
  local DONE, AGAIN, NO_RATE, CORRUPT, PREFETCHED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
  -- limit/redisson.lua, function
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
  -- internal/include/window.lua
  local ttl = keepAlive == '0' and call('PTTL', KEYS[1])
  local expired, setTTL = call('ZCOUNT', permitsKey, '-inf', ended), call('PTTL', permitsKey)
  -- internal/include/reclaim.lua
  local spent = nil
  local size = setTTL == -2 and 0 or expired > 0 and call('ZCARD', permitsKey) or nil
  local dirty, more, wipe, drop = not stored or setTTL ~= -1 and ttl == -1, false, false, 0
  if expired == size then
    wipe = expired > 0
    if value ~= rate then
      value, dirty = rate, true
    end
  elseif expired > 0 or not value then
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
    -- internal/include/reclaim.lua
    if expired > 0 then
      more, drop = expired > page, math.min(expired, page)
      local returned, sum = call('ZRANGE', permitsKey, '0', drop - 1), 0
      for i = 1, #returned do
        local n = permitsOf(returned[i])
        if not n then
          return {CORRUPT, permitsAt, 'member', returned[i]}
        end
        sum = sum + n
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
        local n = permitsOf(members[i])
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
  -- internal/include/cap.lua
  if value > rate then
    value, dirty = rate, true
  end
  -- limit/redisson.lua, function
  local limiter = {free = value, most = rate, more = more, interval = interval}
  function limiter.settle(granted)
    local total, reply, grantedAt = -1, false, now
    if granted > 0 then
      value, spent = value - granted, string.format('%d', granted)
    end
    -- internal/include/store.lua
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
    -- internal/include/grant.lua
    if granted > 0 and (not failed or type(failed) ~= 'table') then
      local member = ARGV[2]
      if granted ~= total then
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
        -- internal/include/grant.lua
        member = resized(member, granted)
      end
      failed = redis.pcall('ZADD', permitsKey, grantedAt, member)
    end
    -- internal/include/checked.lua
    if failed and failed ~= 1 and type(failed) == 'table' then
      call('SET', valueKey, '0', 'PX', '1')
      redis.pcall('UNLINK', valueKey)
      return failed
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
    -- limit/redisson.lua, function
    return reply
  end
  function limiter.report(want)
    local newest = call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2]
    local reset = newest and math.min(math.max(0, tonumber(newest) + interval - now), 9007199254740992) or 0
    local report = {now, rate, math.min(interval, 9007199254740992), value, reset, keepAlive + 0}
    if want > value then
      local reply, need = report, rate + 1 - value
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
      -- internal/include/waits.lua
      local last, lastPrefetched, nowNumber = nil, nil, now + 0
      local prefetches = call('ZRANGEBYSCORE', permitsKey, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', '0', page)
      local oldest = call('ZRANGE', permitsKey, '0', need > 1 and page - 1 or '0', 'WITHSCORES')
      if need == 1 and oldest[1] and permitsOf(oldest[1]) == 0 then
        oldest = call('ZRANGE', permitsKey, '0', page - 1, 'WITHSCORES')
      end
      local at, prefetchAt = 1, 1
      while need > 0 do
        while oldest[at] and tonumber(oldest[at + 1]) > nowNumber and prefetchOf(oldest[at]) do
          at = at + 2
        end
        while prefetches[prefetchAt] and not prefetchOf(prefetches[prefetchAt]) do
          prefetchAt = prefetchAt + 2
        end
        local wait, prefetch = oldest[at] and tonumber(oldest[at + 1]), prefetches[prefetchAt] and tonumber(prefetches[prefetchAt + 1])
        wait = wait and wait + interval - now
        prefetch = prefetch and prefetch - now + math.min(50, interval)
        local n, prefetched
        if prefetch and (not wait or prefetch < wait) then
          n, wait, prefetchAt, prefetched = permitsOf(prefetches[prefetchAt]), prefetch, prefetchAt + 2, true
        elseif wait then
          n, at = permitsOf(oldest[at]), at + 2
        else
          break
        end
        n, wait = n or 0, math.min(math.max(0, wait), 9007199254740992)
        need = need - n
        n = prefetched and -n or n
        if wait == last and prefetched == lastPrefetched then
          reply[#reply] = reply[#reply] + n
        else
          reply[#reply + 1], reply[#reply + 2], last, lastPrefetched = wait, n, wait, prefetched
        end
      end
    -- limit/redisson.lua, function
    end
    return report
  end
  return limiter
end
-- limit/fixedwindow.lua, read
local most1, count1, left1, text1 = ARGV[2] + 0, call('GET', KEYS[1]), false, ''
if count1 and count1 ~= '0' and (not match(count1, '^[1-9]%d*$') or #count1 > 16) then
  return {3, 1, count1}
end
-- limit/redisson.lua, read
local format = string.format
local text2 = format('%d', millis)
local limiter2 = redisson({KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]},
  {text2, ARGV[4], nil, nil, nil, ARGV[5]})
if limiter2[1] == 1 then
  return {1, format('%d', now), 2, limiter2[2]}
elseif limiter2[1] then
  table.insert(limiter2, 2, 2)
  return limiter2
end
local free2, most2 = limiter2.free, limiter2.most
-- limit/tokenbucket.lua, read
local most3, refill3, interval3 = ARGV[6] + 0, ARGV[7] + 0, ARGV[8] + 0
local at3, missing3, refunded3, extra3, early3, epoch3, other3 = now, 0, 0, 0, 0, false, false
local text3 = call('GET', KEYS[7]) or ''
if text3 ~= '' then
  local word, at, taken, part, rate, rest = match(text3, '^(%w+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  local refunded, extra = match(rest or '', '^ (%d+) ?(-?%d*)$')
  if not word or #at > 18 or max(#taken, #part, #rate) > 16
      or rest ~= '' and (not refunded or max(#refunded, #extra) > 99) then
    return {3, 3, text3}
  end
  at3, missing3 = at + 0, tonumber(taken, 10) * interval3 + part
  if refunded then
    refunded3 = tonumber(refunded .. '.')
    extra3 = tonumber(extra .. '.') or 0
  end
  if rate ~= ARGV[7] or refunded and extra ~= '' then
    other3 = rate + 0
    extra3 = extra3 + max(0, now - at3) * (refill3 - other3)
  end
  if at3 < now then
    local ceil = math.ceil
    local full = at3 + ceil(missing3 / refill3)
    if backdate and full < now then
      at3, missing3 = max(full, now - backdate), 0
      early3 = (now - at3) * refill3
    else
      missing3, at3 = max(0, missing3 - (now - at3) * refill3), now
    end
  end
  epoch3 = missing3 > 0 and word
end
local fmod = math.fmod
local part3 = fmod(missing3, interval3)
local taken3 = floor((missing3 - part3) / interval3 + 0.5)
-- limit/scripts/peek.lua
local answers, want = '*', 1
-- limit/fixedwindow.lua, left
if count1 and not left1 then
  left1 = call('PTTL', KEYS[1])
  if left1 == 0 then
    left1 = 1
  end
end
-- limit/fixedwindow.lua, report
local report1 = {text1, (count1 or 0) + 0, (left1 or 0) + 0}
-- limit/redisson.lua, report
local report2 = limiter2.report(want)
-- limit/tokenbucket.lua, report
local report3 = {text3, taken3, part3, at3 - now}
-- limit/tokenbucket.lua, peek
if epoch3 and other3 then
  report3[5] = max(0, call('PTTL', KEYS[7])) * 1000
end
-- limit/scripts/peek.lua
return {0, answers, report1, report2, report3}

---- drain
-- limit/scripts/include/clock.lua
local ARGV = ARGV
local now = ARGV[2]
local call = redis.call
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local max = math.max
now = max(0, now)
local floor = math.floor
local millis = floor(now / 1000)
-- limit/scripts/drain.lua
local backdate = nil
-- limit/redisson.lua, function
local match = string.match
local KEYS = KEYS
local function redisson(KEYS, ARGV)
  -- internal/include/names.lua
  local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
  local call, find, match, page = redis.call, string.find, string.match, 256
  local DONE, AGAIN, NO_RATE, CORRUPT, PREFETCHED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
  -- limit/redisson.lua, function
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
  -- internal/include/window.lua
  local ttl = keepAlive == '0' and call('PTTL', KEYS[1])
  local expired, setTTL = call('ZCOUNT', permitsKey, '-inf', ended), call('PTTL', permitsKey)
  -- internal/include/reclaim.lua
  local spent = nil
  local size = setTTL == -2 and 0 or expired > 0 and call('ZCARD', permitsKey) or nil
  local dirty, more, wipe, drop = not stored or setTTL ~= -1 and ttl == -1, false, false, 0
  if expired == size then
    wipe = expired > 0
    if value ~= rate then
      value, dirty = rate, true
    end
  elseif expired > 0 or not value then
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
    -- internal/include/reclaim.lua
    if expired > 0 then
      more, drop = expired > page, math.min(expired, page)
      local returned, sum = call('ZRANGE', permitsKey, '0', drop - 1), 0
      for i = 1, #returned do
        local n = permitsOf(returned[i])
        if not n then
          return {CORRUPT, permitsAt, 'member', returned[i]}
        end
        sum = sum + n
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
        local n = permitsOf(members[i])
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
  -- internal/include/cap.lua
  if value > rate then
    value, dirty = rate, true
  end
  -- limit/redisson.lua, function
  local limiter = {free = value, most = rate, more = more, interval = interval}
  function limiter.settle(granted)
    local total, reply, grantedAt = -1, false, now
    if granted > 0 then
      value, spent = value - granted, string.format('%d', granted)
    end
    -- internal/include/store.lua
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
    -- internal/include/grant.lua
    if granted > 0 and (not failed or type(failed) ~= 'table') then
      local member = ARGV[2]
      if granted ~= total then
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
        -- internal/include/grant.lua
        member = resized(member, granted)
      end
      failed = redis.pcall('ZADD', permitsKey, grantedAt, member)
    end
    -- internal/include/checked.lua
    if failed and failed ~= 1 and type(failed) == 'table' then
      call('SET', valueKey, '0', 'PX', '1')
      redis.pcall('UNLINK', valueKey)
      return failed
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
    -- limit/redisson.lua, function
    return reply
  end
  function limiter.report(want)
    local newest = call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2]
    local reset = newest and math.min(math.max(0, tonumber(newest) + interval - now), 9007199254740992) or 0
    local report = {now, rate, math.min(interval, 9007199254740992), value, reset, keepAlive + 0}
    if want > value then
      local reply, need = report, rate + 1 - value
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
      -- internal/include/waits.lua
      local last, lastPrefetched, nowNumber = nil, nil, now + 0
      local prefetches = call('ZRANGEBYSCORE', permitsKey, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', '0', page)
      local oldest = call('ZRANGE', permitsKey, '0', need > 1 and page - 1 or '0', 'WITHSCORES')
      if need == 1 and oldest[1] and permitsOf(oldest[1]) == 0 then
        oldest = call('ZRANGE', permitsKey, '0', page - 1, 'WITHSCORES')
      end
      local at, prefetchAt = 1, 1
      while need > 0 do
        while oldest[at] and tonumber(oldest[at + 1]) > nowNumber and prefetchOf(oldest[at]) do
          at = at + 2
        end
        while prefetches[prefetchAt] and not prefetchOf(prefetches[prefetchAt]) do
          prefetchAt = prefetchAt + 2
        end
        local wait, prefetch = oldest[at] and tonumber(oldest[at + 1]), prefetches[prefetchAt] and tonumber(prefetches[prefetchAt + 1])
        wait = wait and wait + interval - now
        prefetch = prefetch and prefetch - now + math.min(50, interval)
        local n, prefetched
        if prefetch and (not wait or prefetch < wait) then
          n, wait, prefetchAt, prefetched = permitsOf(prefetches[prefetchAt]), prefetch, prefetchAt + 2, true
        elseif wait then
          n, at = permitsOf(oldest[at]), at + 2
        else
          break
        end
        n, wait = n or 0, math.min(math.max(0, wait), 9007199254740992)
        need = need - n
        n = prefetched and -n or n
        if wait == last and prefetched == lastPrefetched then
          reply[#reply] = reply[#reply] + n
        else
          reply[#reply + 1], reply[#reply + 2], last, lastPrefetched = wait, n, wait, prefetched
        end
      end
    -- limit/redisson.lua, function
    end
    return report
  end
  return limiter
end
-- limit/fixedwindow.lua, read
local most1, count1, left1, text1 = ARGV[4] + 0, call('GET', KEYS[1]), false, ''
if count1 and count1 ~= '0' and (not match(count1, '^[1-9]%d*$') or #count1 > 16) then
  return {3, 1, count1}
end
local free1 = most1 - (count1 or 0)
-- limit/redisson.lua, read
local format = string.format
local text2 = format('%d', millis)
local limiter2 = redisson({KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]},
  {text2, ARGV[6], nil, nil, nil, ARGV[7]})
if limiter2[1] == 1 then
  return {1, format('%d', now), 2, limiter2[2]}
elseif limiter2[1] then
  table.insert(limiter2, 2, 2)
  return limiter2
end
local free2, most2 = limiter2.free, limiter2.most
-- limit/tokenbucket.lua, read
local most3, refill3, interval3 = ARGV[8] + 0, ARGV[9] + 0, ARGV[10] + 0
local at3, missing3, refunded3, extra3, early3, epoch3, other3 = now, 0, 0, 0, 0, false, false
local text3 = call('GET', KEYS[7]) or ''
local ceil = math.ceil
if text3 ~= '' then
  local word, at, taken, part, rate, rest = match(text3, '^(%w+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  local refunded, extra = match(rest or '', '^ (%d+) ?(-?%d*)$')
  if not word or #at > 18 or max(#taken, #part, #rate) > 16
      or rest ~= '' and (not refunded or max(#refunded, #extra) > 99) then
    return {3, 3, text3}
  end
  at3, missing3 = at + 0, tonumber(taken, 10) * interval3 + part
  if refunded then
    refunded3 = tonumber(refunded .. '.')
    extra3 = tonumber(extra .. '.') or 0
  end
  if rate ~= ARGV[9] or refunded and extra ~= '' then
    other3 = rate + 0
    extra3 = extra3 + max(0, now - at3) * (refill3 - other3)
  end
  if at3 < now then
    local full = at3 + ceil(missing3 / refill3)
    if backdate and full < now then
      at3, missing3 = max(full, now - backdate), 0
      early3 = (now - at3) * refill3
    else
      missing3, at3 = max(0, missing3 - (now - at3) * refill3), now
    end
  end
  epoch3 = missing3 > 0 and word
end
local fmod = math.fmod
local part3 = fmod(missing3, interval3)
local taken3 = floor((missing3 - part3) / interval3 + 0.5)
local free3 = most3 - taken3 - (part3 > 0 and 1 or 0) + floor(early3 / interval3)
-- limit/scripts/drain.lua
local epoch = ARGV[3]
local leave, answers, want, granted = ARGV[1] + 0, nil, 1, 0
-- limit/scripts/include/drain.lua
local min = math.min
granted = min(free1) - leave
if granted > 0 then
  local amount = format('%d', granted)
  -- limit/fixedwindow.lua, take
  if count1 then
    count1 = call('INCRBY', KEYS[1], amount)
  else
    -- limit/fixedwindow.lua, begin
    left1 = ARGV[5]
    -- limit/fixedwindow.lua, take
    call('SET', KEYS[1], amount, 'PX', left1)
    count1, text1 = granted, 'new'
  end
-- limit/scripts/include/drain.lua
end
-- limit/redisson.lua, drain
do
  local granted = limiter2.more and 0 or max(0, min(4294967295, limiter2.free - leave))
  local failed = (limiter2.more or granted > 0) and limiter2.settle(granted)
  if failed then
    return failed
  elseif limiter2.more then
    return {1, format('%d', now)}
  end
end
-- limit/scripts/include/drain.lua
granted = min(free3) - leave
if granted > 0 then
  local amount = format('%d', granted)
  -- limit/tokenbucket.lua, take
  if not epoch3 then
    epoch3, refunded3, extra3, other3 = epoch, 0, 0, false
  end
  missing3 = min(9007199254740992 * interval3, missing3 + granted * interval3)
  -- limit/tokenbucket.lua, write
  part3 = fmod(missing3, interval3)
  taken3 = floor((missing3 - part3) / interval3 + 0.5)
  if missing3 > 0 then
    -- limit/tokenbucket.lua, life
    local life = max(1, min(9007199254740, ceil((missing3 / refill3 + (at3 - now)) / 1000) + 1000))
    -- limit/tokenbucket.lua, write
    text3 = format('%s %d %d %d %d', epoch3, at3, taken3, part3, other3 or refill3)
    if other3 then
      text3, life = text3 .. format(' %.0f %.0f', refunded3, extra3), max(call('PTTL', KEYS[7]), life)
    elseif refunded3 > 0 then
      text3 = text3 .. format(' %.0f', refunded3)
    end
    call('SET', KEYS[7], text3, 'PX', format('%d', life))
  else
    text3 = ''
    call('UNLINK', KEYS[7])
  end
-- limit/scripts/include/drain.lua
end
-- limit/scripts/drain.lua
answers = '*'
-- limit/fixedwindow.lua, left
if count1 and not left1 then
  left1 = call('PTTL', KEYS[1])
  if left1 == 0 then
    left1 = 1
  end
end
-- limit/fixedwindow.lua, expire
if left1 == -1 then
  -- limit/fixedwindow.lua, begin
  left1 = ARGV[5]
  -- limit/fixedwindow.lua, expire
  call('PEXPIRE', KEYS[1], left1)
end
-- limit/fixedwindow.lua, left
if count1 and not left1 then
  left1 = call('PTTL', KEYS[1])
  if left1 == 0 then
    left1 = 1
  end
end
-- limit/fixedwindow.lua, report
local report1 = {text1, (count1 or 0) + 0, (left1 or 0) + 0}
-- limit/redisson.lua, report
local report2 = limiter2.report(want)
-- limit/tokenbucket.lua, report
local report3 = {text3, taken3, part3, at3 - now}
-- limit/tokenbucket.lua, peek
if epoch3 and other3 then
  report3[5] = max(0, call('PTTL', KEYS[7])) * 1000
end
-- limit/scripts/drain.lua
return {0, '*', report1, report2, report3}

