---- acquire
-- limit/fixedwindow.lua, read
local call = redis.call
local KEYS = KEYS
local ARGV = ARGV
local most1, count1, left1, text1 = ARGV[2] + 0, call('GET', KEYS[1]), false, ''
local match = string.match
if count1 and count1 ~= '0' and (not match(count1, '^[1-9]%d*$') or #count1 > 16) then
  return {3, 1, count1}
end
local free1 = most1 - (count1 or 0)
-- limit/scripts/acquire.lua
local total, free, most, credit = ARGV[1] + 0, free1, most1, 9007199254740992
local amount, flags, runs = ARGV[1], ARGV[3 + 1], ARGV[3 + 2]
local granted, answers, above, want, missed = 0, nil, false, 0, nil
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
local prefetched, span = nil, ARGV[3 + 5]
local floor = math.floor
if span and span ~= '' then
  prefetched, span = 0, tonumber(span)
  -- limit/fixedwindow.lua, length
  local length1 = ARGV[3]
  -- limit/fixedwindow.lua, prefetch
  if not count1 then
    -- limit/alignedwindow.lua, begin
    do
      local time = call('TIME')
      left1 = ARGV[3] - (time[1] * 1000 + floor(time[2] / 1000)) % ARGV[3]
    end
  -- limit/fixedwindow.lua, prefetch
  end
  local min = math.min
  span = min(span, floor(length1 / 16), count1 and call('PTTL', KEYS[1]) or left1 + 0)
  -- limit/scripts/acquire.lua
  if granted == total and span > 0 then
    local ceil = math.ceil
    local max = math.max
    prefetched = max(0, min(tonumber(ARGV[3 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + prefetched
    amount = string.format('%d', granted)
  end
end
if granted > 0 then
  -- limit/fixedwindow.lua, take
  if count1 then
    count1 = call('INCRBY', KEYS[1], amount)
  else
    -- limit/alignedwindow.lua, begin
    do
      local time = call('TIME')
      left1 = ARGV[3] - (time[1] * 1000 + floor(time[2] / 1000)) % ARGV[3]
    end
    -- limit/fixedwindow.lua, take
    call('SET', KEYS[1], amount, 'PX', left1)
    count1, text1 = granted, 'new'
  end
-- limit/scripts/acquire.lua
end
if (not flags or flags == '') and not above and not prefetched then
  if granted == total then
    return text1
  elseif granted == 0 then
    return -1
  end
end
-- limit/fixedwindow.lua, flat
if flags == 'd' and not runs then
  -- limit/fixedwindow.lua, left
  if count1 and not left1 then
    left1 = call('PTTL', KEYS[1])
    if left1 == 0 then
      left1 = 1
    end
  end
  -- limit/fixedwindow.lua, expire
  if left1 == -1 then
    -- limit/alignedwindow.lua, begin
    do
      local time = call('TIME')
      left1 = ARGV[3] - (time[1] * 1000 + floor(time[2] / 1000)) % ARGV[3]
    end
    -- limit/fixedwindow.lua, expire
    call('PEXPIRE', KEYS[1], left1)
  end
  -- limit/fixedwindow.lua, flat
  if granted > 0 then
    return {count1, left1 + 0}
  end
  return {-1, (count1 or 0) + 0, (left1 or 0) + 0}
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
  -- limit/alignedwindow.lua, begin
  do
    local time = call('TIME')
    left1 = ARGV[3] - (time[1] * 1000 + floor(time[2] / 1000)) % ARGV[3]
  end
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
-- limit/scripts/acquire.lua
if prefetched then
  return {0, answers or '*', report1, prefetched, span}
end
return {0, answers or '*', report1}

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
local backdate = tonumber(ARGV[4 + 3] or '')
local KEYS = KEYS
local waiters, id, late = KEYS[2], ARGV[4 + 6], ARGV[4 + 7] + 0
local rest, lead, permit = ARGV[4 + 8] + 0, ARGV[4 + 9] + 0, ARGV[4 + 10] + 0
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
-- limit/scripts/acquire.lua
if others then -- whose callers have waited, if these have not
  backdate, millis = max(backdate, 10000), floor(now / 1000)
end
-- limit/fixedwindow.lua, read
local most1, count1, left1, text1 = ARGV[3] + 0, call('GET', KEYS[1]), false, ''
local match = string.match
if count1 and count1 ~= '0' and (not match(count1, '^[1-9]%d*$') or #count1 > 16) then
  return {3, 1, count1}
end
local free1 = most1 - (count1 or 0)
-- limit/scripts/acquire.lua
local total, free, most, credit = ARGV[1] + 0, free1, most1, 9007199254740992
local holds, reach = true, 0
-- internal/include/share.lua
local min = math.min
local known, open = tonumber(redis.pcall('ZSCORE', waiters, id)), max(0, min(free, credit + 1))
local stays = known and known < 1e14
local own, held, slow = stays and floor(known) or 0, 0, 0
local fmod = math.fmod
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
local amount, flags, runs = ARGV[1], ARGV[4 + 1], ARGV[4 + 2]
local granted, answers, above, want, missed = 0, nil, false, 0, nil
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
local prefetched, span = nil, ARGV[4 + 5]
if span and span ~= '' then
  prefetched, span = 0, tonumber(span)
  -- limit/fixedwindow.lua, length
  local length1 = ARGV[4]
  -- limit/fixedwindow.lua, prefetch
  if not count1 then
    -- limit/alignedwindow.lua, begin
    do
      local time = call('TIME')
      left1 = ARGV[4] - (time[1] * 1000 + floor(time[2] / 1000)) % ARGV[4]
    end
  -- limit/fixedwindow.lua, prefetch
  end
  span = min(span, floor(length1 / 16), count1 and call('PTTL', KEYS[1]) or left1 + 0)
  -- limit/scripts/acquire.lua
  if granted == total and span > 0 then
    prefetched = max(0, min(tonumber(ARGV[4 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + prefetched
    amount = string.format('%d', granted)
  end
end
if granted > 0 then
  -- limit/fixedwindow.lua, take
  if count1 then
    count1 = call('INCRBY', KEYS[1], amount)
  else
    -- limit/alignedwindow.lua, begin
    do
      local time = call('TIME')
      left1 = ARGV[4] - (time[1] * 1000 + floor(time[2] / 1000)) % ARGV[4]
    end
    -- limit/fixedwindow.lua, take
    call('SET', KEYS[1], amount, 'PX', left1)
    count1, text1 = granted, 'new'
  end
-- limit/scripts/acquire.lua
end
if (not flags or flags == '') and not above and not prefetched then
  if granted == total then
    return text1
  elseif granted == 0 then
    return -1
  end
end
-- limit/fixedwindow.lua, flat
if flags == 'd' and not runs then
  -- limit/fixedwindow.lua, left
  if count1 and not left1 then
    left1 = call('PTTL', KEYS[1])
    if left1 == 0 then
      left1 = 1
    end
  end
  -- limit/fixedwindow.lua, expire
  if left1 == -1 then
    -- limit/alignedwindow.lua, begin
    do
      local time = call('TIME')
      left1 = ARGV[4] - (time[1] * 1000 + floor(time[2] / 1000)) % ARGV[4]
    end
    -- limit/fixedwindow.lua, expire
    call('PEXPIRE', KEYS[1], left1)
  end
  -- limit/fixedwindow.lua, flat
  if granted > 0 then
    return {count1, left1 + 0}
  end
  return {-1, (count1 or 0) + 0, (left1 or 0) + 0}
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
  -- limit/alignedwindow.lua, begin
  do
    local time = call('TIME')
    left1 = ARGV[4] - (time[1] * 1000 + floor(time[2] / 1000)) % ARGV[4]
  end
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
-- limit/scripts/acquire.lua
local next, batch, window, ends, drips = 0, nil, 0, 0, false
-- limit/fixedwindow.lua, length
local length1 = ARGV[4]
-- limit/fixedwindow.lua, next
if (missed or 1) > most1 - (count1 or 0) then
  next = max(next, (left1 or 0) * 1000)
end
if not batch or most1 < batch then
  batch, window, ends = most1, length1 + 0, (left1 or 0) + 0
end
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
  return {0, answers or '*', report1, others and 1 or 0, held * 1000, slow, lag * 1000, moved}
end
do
  return {0, answers or '*', report1, prefetched, span, others and 1 or 0, held * 1000, slow, lag * 1000, moved}
end
if prefetched then
  return {0, answers or '*', report1, prefetched, span}
end
return {0, answers or '*', report1}

---- charge
-- limit/fixedwindow.lua, read
local call = redis.call
local KEYS = KEYS
local ARGV = ARGV
local most1, count1, left1, text1 = ARGV[2] + 0, call('GET', KEYS[1]), false, ''
local match = string.match
if count1 and count1 ~= '0' and (not match(count1, '^[1-9]%d*$') or #count1 > 16) then
  return {3, 1, count1}
end
-- limit/scripts/charge.lua
local granted, answers, want = ARGV[1] + 0, nil, 1
-- limit/fixedwindow.lua, charge
local floor = math.floor
do
  local max = math.max
  local min = math.min
  local format = string.format
  local amount = format('%d', max(0, min(granted, 9007199254740992 - (count1 or 0))))
  -- limit/fixedwindow.lua, take
  if count1 then
    count1 = call('INCRBY', KEYS[1], amount)
  else
    -- limit/alignedwindow.lua, begin
    do
      local time = call('TIME')
      left1 = ARGV[3] - (time[1] * 1000 + floor(time[2] / 1000)) % ARGV[3]
    end
    -- limit/fixedwindow.lua, take
    call('SET', KEYS[1], amount, 'PX', left1)
    count1, text1 = granted, 'new'
  end
-- limit/fixedwindow.lua, charge
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
  -- limit/alignedwindow.lua, begin
  do
    local time = call('TIME')
    left1 = ARGV[3] - (time[1] * 1000 + floor(time[2] / 1000)) % ARGV[3]
  end
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
-- limit/scripts/charge.lua
return {0, '*', report1}

---- release
-- limit/fixedwindow.lua, read
local call = redis.call
local KEYS = KEYS
local ARGV = ARGV
local most1, count1, left1, text1 = ARGV[3] + 0, call('GET', KEYS[1]), false, ''
local match = string.match
if count1 and count1 ~= '0' and (not match(count1, '^[1-9]%d*$') or #count1 > 16) then
  return {3, 1, count1}
end
-- limit/scripts/release.lua
local n, age = tonumber(ARGV[1]), ARGV[2]
local receipts = {unpack(ARGV, 4 + 1)}
-- limit/fixedwindow.lua, release
if count1 then
  local left, receipt = call('PTTL', KEYS[1]), receipts[1] or ''
  local own, took = age == '', match(receipt, '^%+(%d+)$')
  if took then
    -- limit/fixedwindow.lua, length
    local length1 = ARGV[4]
    -- limit/fixedwindow.lua, release
    own = left >= 0 and length1 - left >= age + took
  elseif not own then
    own = left >= 0 and left <= (tonumber(receipt) or 0) - age * 0.999
  end
  if own then
    if n < count1 + 0 then
      local format = string.format
      call('INCRBY', KEYS[1], format('%d', -n))
    else
      call('UNLINK', KEYS[1])
    end
  end
end
-- limit/scripts/release.lua
return 1

---- peek
-- limit/fixedwindow.lua, read
local call = redis.call
local KEYS = KEYS
local ARGV = ARGV
local most1, count1, left1, text1 = ARGV[1] + 0, call('GET', KEYS[1]), false, ''
local match = string.match
if count1 and count1 ~= '0' and (not match(count1, '^[1-9]%d*$') or #count1 > 16) then
  return {3, 1, count1}
end
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
-- limit/scripts/peek.lua
return {0, answers, report1}

---- drain
-- limit/fixedwindow.lua, read
local call = redis.call
local KEYS = KEYS
local ARGV = ARGV
local most1, count1, left1, text1 = ARGV[2] + 0, call('GET', KEYS[1]), false, ''
local match = string.match
if count1 and count1 ~= '0' and (not match(count1, '^[1-9]%d*$') or #count1 > 16) then
  return {3, 1, count1}
end
local free1 = most1 - (count1 or 0)
-- limit/scripts/drain.lua
local leave, answers, want, granted = ARGV[1] + 0, nil, 1, 0
-- limit/scripts/include/drain.lua
local min = math.min
granted = min(free1) - leave
local floor = math.floor
if granted > 0 then
  local format = string.format
  local amount = format('%d', granted)
  -- limit/fixedwindow.lua, take
  if count1 then
    count1 = call('INCRBY', KEYS[1], amount)
  else
    -- limit/alignedwindow.lua, begin
    do
      local time = call('TIME')
      left1 = ARGV[3] - (time[1] * 1000 + floor(time[2] / 1000)) % ARGV[3]
    end
    -- limit/fixedwindow.lua, take
    call('SET', KEYS[1], amount, 'PX', left1)
    count1, text1 = granted, 'new'
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
  -- limit/alignedwindow.lua, begin
  do
    local time = call('TIME')
    left1 = ARGV[3] - (time[1] * 1000 + floor(time[2] / 1000)) % ARGV[3]
  end
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
-- limit/scripts/drain.lua
return {0, '*', report1}

