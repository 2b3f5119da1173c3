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
-- limit/slidinglog.lua, read
local most1, at1, first1, base1, length1, sum1 = tonumber(ARGV[4]), millis, 0, 0, 0, 0
local time1, count1, total1, epoch1, text1 = 0, 0, 0, false, ''
local match = string.match
local KEYS = KEYS
do
  local found = call('LRANGE', KEYS[1], 0, 7)
  length1, text1 = #found, found[#found] or ''
  if length1 == 8 then
    length1, text1 = call('LLEN', KEYS[1]), call('LINDEX', KEYS[1], -1)
  end
  local word, time, ahead, count, total = match(text1, '^(%w+) (%d+) (%d+) (%d+) (%d+)$')
  if found[1] and (not word or #text1 > 99 or time + ahead > 9007199254740992
      or max(count, total) > 9007199254740992) then
    return {3, 1, text1}
  end
  if word then
    at1 = max(millis, time + ahead)
  end
  local limit = at1 - ARGV[5]
  if word and tonumber(time) > limit then
    epoch1, time1, count1, total1 = word, tonumber(time), tonumber(count), tonumber(total)
    local high, oldest = length1 - 1, text1
    while first1 < high do
      local index = first1 < 7 and first1 or floor((first1 + high) / 2)
      local entry = index < 8 and found[index + 1] or call('LINDEX', KEYS[1], index)
      local other = match(entry, '^%w+ (%d+) %d+ %d+ %d+$')
      if not other then
        return {3, 1, entry}
      elseif tonumber(other) > limit then
        high, oldest = index, entry
      else
        first1 = index + 1
      end
    end
    count, total = match(oldest, '(%d+) (%d+)$')
    base1 = total - count
    sum1 = total1 - base1
    if sum1 < 0 or sum1 == 0 and count1 > 0 then
      sum1 = sum1 + 9007199254740992
    end
  end
end
local free1 = most1 - sum1
-- limit/scripts/acquire.lua
local total, free, most, credit = ARGV[1] + 0, free1, most1, 9007199254740992
local amount, flags, runs = ARGV[1], ARGV[5 + 1], ARGV[5 + 2]
local epoch = ARGV[3]
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
local prefetched, span = nil, ARGV[5 + 5]
local min = math.min
if span and span ~= '' then
  prefetched, span = 0, tonumber(span)
  if granted == total and span > 0 then
    local ceil = math.ceil
    prefetched = max(0, min(tonumber(ARGV[5 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + prefetched
    amount = string.format('%d', granted)
  end
end
if granted > 0 then
  -- limit/slidinglog.lua, take
  do
    local n = min(granted, 9007199254740992 - sum1) -- only Charge reaches this
    sum1, total1 = sum1 + n, total1 - (9007199254740992 - n)
    if total1 < 0 then
      total1 = total1 + 9007199254740992
    end
    local format = string.format
    if epoch1 and time1 == at1 then
      count1 = count1 + n
      text1 = format('%s %d 0 %d %d', epoch1, time1, count1, total1)
      call('LSET', KEYS[1], -1, text1)
    else
      if not epoch1 then
        epoch1 = epoch
        if text1 ~= '' then
          call('UNLINK', KEYS[1])
        end
      end
      time1, count1 = at1, n
      text1 = format('%s %d 0 %d %d', epoch1, time1, count1, total1)
      call('RPUSH', KEYS[1], text1)
    end
    call('PEXPIRE', KEYS[1], ARGV[5])
    if first1 > 0 then
      call('LTRIM', KEYS[1], first1, -1)
      first1 = 0
    end
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
-- limit/slidinglog.lua, report
local report1 = {text1, sum1, 0}
if sum1 > 0 then
  report1[3] = (time1 + ARGV[5]) * 1000 - now
  local need, found, i = want - most1 + sum1, {}, 1
  if need > 0 then
    found = call('LRANGE', KEYS[1], first1, first1 + 7)
  end
  while need > 0 and found[i] do
    local time, count = match(found[i], '^%w+ (%d+) %d+ (%d+) %d+$')
    if not time then
      break
    end
    report1[#report1 + 1] = (time + ARGV[5]) * 1000 - now
    report1[#report1 + 1] = tonumber(count)
    need, i = need - count, i + 1
    if i == 9 and #report1 == 19 then
      found, i = call('LRANGE', KEYS[1], first1 + 8, first1 + 255), 1
    end
  end
end
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
local backdate = tonumber(ARGV[5 + 3] or '')
local KEYS = KEYS
local waiters, id, late = KEYS[2], ARGV[5 + 6], ARGV[5 + 7] + 0
local rest, lead, permit = ARGV[5 + 8] + 0, ARGV[5 + 9] + 0, ARGV[5 + 10] + 0
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
-- limit/slidinglog.lua, read
local most1, at1, first1, base1, length1, sum1 = tonumber(ARGV[4]), millis, 0, 0, 0, 0
local time1, count1, total1, epoch1, text1 = 0, 0, 0, false, ''
local match = string.match
do
  local found = call('LRANGE', KEYS[1], 0, 7)
  length1, text1 = #found, found[#found] or ''
  if length1 == 8 then
    length1, text1 = call('LLEN', KEYS[1]), call('LINDEX', KEYS[1], -1)
  end
  local word, time, ahead, count, total = match(text1, '^(%w+) (%d+) (%d+) (%d+) (%d+)$')
  if found[1] and (not word or #text1 > 99 or time + ahead > 9007199254740992
      or max(count, total) > 9007199254740992) then
    return {3, 1, text1}
  end
  if word then
    at1 = max(millis, time + ahead)
  end
  local limit = at1 - ARGV[5]
  if word and tonumber(time) > limit then
    epoch1, time1, count1, total1 = word, tonumber(time), tonumber(count), tonumber(total)
    local high, oldest = length1 - 1, text1
    while first1 < high do
      local index = first1 < 7 and first1 or floor((first1 + high) / 2)
      local entry = index < 8 and found[index + 1] or call('LINDEX', KEYS[1], index)
      local other = match(entry, '^%w+ (%d+) %d+ %d+ %d+$')
      if not other then
        return {3, 1, entry}
      elseif tonumber(other) > limit then
        high, oldest = index, entry
      else
        first1 = index + 1
      end
    end
    count, total = match(oldest, '(%d+) (%d+)$')
    base1 = total - count
    sum1 = total1 - base1
    if sum1 < 0 or sum1 == 0 and count1 > 0 then
      sum1 = sum1 + 9007199254740992
    end
  end
end
local free1 = most1 - sum1
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
local amount, flags, runs = ARGV[1], ARGV[5 + 1], ARGV[5 + 2]
local epoch = ARGV[3]
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
local prefetched, span = nil, ARGV[5 + 5]
if span and span ~= '' then
  prefetched, span = 0, tonumber(span)
  if granted == total and span > 0 then
    prefetched = max(0, min(tonumber(ARGV[5 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + prefetched
    amount = string.format('%d', granted)
  end
end
if granted > 0 then
  -- limit/slidinglog.lua, take
  do
    local n = min(granted, 9007199254740992 - sum1) -- only Charge reaches this
    sum1, total1 = sum1 + n, total1 - (9007199254740992 - n)
    if total1 < 0 then
      total1 = total1 + 9007199254740992
    end
    local format = string.format
    if epoch1 and time1 == at1 then
      count1 = count1 + n
      text1 = format('%s %d 0 %d %d', epoch1, time1, count1, total1)
      call('LSET', KEYS[1], -1, text1)
    else
      if not epoch1 then
        epoch1 = epoch
        if text1 ~= '' then
          call('UNLINK', KEYS[1])
        end
      end
      time1, count1 = at1, n
      text1 = format('%s %d 0 %d %d', epoch1, time1, count1, total1)
      call('RPUSH', KEYS[1], text1)
    end
    call('PEXPIRE', KEYS[1], ARGV[5])
    if first1 > 0 then
      call('LTRIM', KEYS[1], first1, -1)
      first1 = 0
    end
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
-- limit/slidinglog.lua, report
local report1 = {text1, sum1, 0}
if sum1 > 0 then
  report1[3] = (time1 + ARGV[5]) * 1000 - now
  local need, found, i = want - most1 + sum1, {}, 1
  if need > 0 then
    found = call('LRANGE', KEYS[1], first1, first1 + 7)
  end
  while need > 0 and found[i] do
    local time, count = match(found[i], '^%w+ (%d+) %d+ (%d+) %d+$')
    if not time then
      break
    end
    report1[#report1 + 1] = (time + ARGV[5]) * 1000 - now
    report1[#report1 + 1] = tonumber(count)
    need, i = need - count, i + 1
    if i == 9 and #report1 == 19 then
      found, i = call('LRANGE', KEYS[1], first1 + 8, first1 + 255), 1
    end
  end
end
-- limit/scripts/acquire.lua
local next, batch, window, ends, drips = 0, nil, 0, 0, false
-- limit/slidinglog.lua, next
do
  local need, i = (missed or 1) - most1 + sum1, 4
  while need > 0 and report1[i] do
    next, need, i = max(next, report1[i]), need - report1[i + 1], i + 2
  end
  if not batch or most1 < batch then
    batch, window = most1, ARGV[5] + 0
  end
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
-- limit/slidinglog.lua, read
local most1, at1, first1, base1, length1, sum1 = tonumber(ARGV[4]), millis, 0, 0, 0, 0
local time1, count1, total1, epoch1, text1 = 0, 0, 0, false, ''
local match = string.match
local KEYS = KEYS
do
  local found = call('LRANGE', KEYS[1], 0, 7)
  length1, text1 = #found, found[#found] or ''
  if length1 == 8 then
    length1, text1 = call('LLEN', KEYS[1]), call('LINDEX', KEYS[1], -1)
  end
  local word, time, ahead, count, total = match(text1, '^(%w+) (%d+) (%d+) (%d+) (%d+)$')
  if found[1] and (not word or #text1 > 99 or time + ahead > 9007199254740992
      or max(count, total) > 9007199254740992) then
    return {3, 1, text1}
  end
  if word then
    at1 = max(millis, time + ahead)
  end
  local limit = at1 - ARGV[5]
  if word and tonumber(time) > limit then
    epoch1, time1, count1, total1 = word, tonumber(time), tonumber(count), tonumber(total)
    local high, oldest = length1 - 1, text1
    while first1 < high do
      local index = first1 < 7 and first1 or floor((first1 + high) / 2)
      local entry = index < 8 and found[index + 1] or call('LINDEX', KEYS[1], index)
      local other = match(entry, '^%w+ (%d+) %d+ %d+ %d+$')
      if not other then
        return {3, 1, entry}
      elseif tonumber(other) > limit then
        high, oldest = index, entry
      else
        first1 = index + 1
      end
    end
    count, total = match(oldest, '(%d+) (%d+)$')
    base1 = total - count
    sum1 = total1 - base1
    if sum1 < 0 or sum1 == 0 and count1 > 0 then
      sum1 = sum1 + 9007199254740992
    end
  end
end
-- limit/scripts/charge.lua
local epoch = ARGV[3]
local granted, answers, want = ARGV[1] + 0, nil, 1
-- limit/slidinglog.lua, take
do
  local min = math.min
  local n = min(granted, 9007199254740992 - sum1) -- only Charge reaches this
  sum1, total1 = sum1 + n, total1 - (9007199254740992 - n)
  if total1 < 0 then
    total1 = total1 + 9007199254740992
  end
  local format = string.format
  if epoch1 and time1 == at1 then
    count1 = count1 + n
    text1 = format('%s %d 0 %d %d', epoch1, time1, count1, total1)
    call('LSET', KEYS[1], -1, text1)
  else
    if not epoch1 then
      epoch1 = epoch
      if text1 ~= '' then
        call('UNLINK', KEYS[1])
      end
    end
    time1, count1 = at1, n
    text1 = format('%s %d 0 %d %d', epoch1, time1, count1, total1)
    call('RPUSH', KEYS[1], text1)
  end
  call('PEXPIRE', KEYS[1], ARGV[5])
  if first1 > 0 then
    call('LTRIM', KEYS[1], first1, -1)
    first1 = 0
  end
end
-- limit/slidinglog.lua, report
local report1 = {text1, sum1, 0}
if sum1 > 0 then
  report1[3] = (time1 + ARGV[5]) * 1000 - now
  local need, found, i = want - most1 + sum1, {}, 1
  if need > 0 then
    found = call('LRANGE', KEYS[1], first1, first1 + 7)
  end
  while need > 0 and found[i] do
    local time, count = match(found[i], '^%w+ (%d+) %d+ (%d+) %d+$')
    if not time then
      break
    end
    report1[#report1 + 1] = (time + ARGV[5]) * 1000 - now
    report1[#report1 + 1] = tonumber(count)
    need, i = need - count, i + 1
    if i == 9 and #report1 == 19 then
      found, i = call('LRANGE', KEYS[1], first1 + 8, first1 + 255), 1
    end
  end
end
-- limit/scripts/charge.lua
return {0, '*', report1}

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
local floor = math.floor
local millis = floor(now / 1000)
-- limit/slidinglog.lua, read
local most1, at1, first1, base1, length1, sum1 = tonumber(ARGV[4]), millis, 0, 0, 0, 0
local time1, count1, total1, epoch1, text1 = 0, 0, 0, false, ''
local match = string.match
local KEYS = KEYS
do
  local found = call('LRANGE', KEYS[1], 0, 7)
  length1, text1 = #found, found[#found] or ''
  if length1 == 8 then
    length1, text1 = call('LLEN', KEYS[1]), call('LINDEX', KEYS[1], -1)
  end
  local word, time, ahead, count, total = match(text1, '^(%w+) (%d+) (%d+) (%d+) (%d+)$')
  if found[1] and (not word or #text1 > 99 or time + ahead > 9007199254740992
      or max(count, total) > 9007199254740992) then
    return {3, 1, text1}
  end
  if word then
    at1 = max(millis, time + ahead)
  end
  local limit = at1 - ARGV[5]
  if word and tonumber(time) > limit then
    epoch1, time1, count1, total1 = word, tonumber(time), tonumber(count), tonumber(total)
    local high, oldest = length1 - 1, text1
    while first1 < high do
      local index = first1 < 7 and first1 or floor((first1 + high) / 2)
      local entry = index < 8 and found[index + 1] or call('LINDEX', KEYS[1], index)
      local other = match(entry, '^%w+ (%d+) %d+ %d+ %d+$')
      if not other then
        return {3, 1, entry}
      elseif tonumber(other) > limit then
        high, oldest = index, entry
      else
        first1 = index + 1
      end
    end
    count, total = match(oldest, '(%d+) (%d+)$')
    base1 = total - count
    sum1 = total1 - base1
    if sum1 < 0 or sum1 == 0 and count1 > 0 then
      sum1 = sum1 + 9007199254740992
    end
  end
end
-- limit/scripts/release.lua
local n, age = tonumber(ARGV[1]), ARGV[2]
local receipts = {unpack(ARGV, 5 + 1)}
-- limit/slidinglog.lua, release
local format = string.format
if receipts[1] then
  -- limit/slidinglog.lua, refund
  local word, dated = match(receipts[1], '^(%w+) (%d+) ')
  local entries, own, back, last = {}, nil, 0, 1
  if word and word == epoch1 and dated + 0 > at1 - ARGV[5] then
    entries = call('LRANGE', KEYS[1], -256, -1)
  end
  local min = math.min
  for i = 1, #entries do
    local time, count, total = match(entries[i], '^%w+ (%d+) %d+ (%d+) (%d+)$')
    if not time then
      return {3, 1, entries[i]}
    end
    if time == dated then
      own, back = i, min(n, count)
      count = count - back
    end
    total = total - back
    if total < 0 then
      total = total + 9007199254740992
    end
    entries[i] = {time, count, total}
    if count + 0 > 0 then
      last = i
    end
  end
  if back > 0 and back == sum1 then
    call('UNLINK', KEYS[1])
  elseif back > 0 then
    for i = min(own, last), #entries do
      local ahead = i == last and at1 - entries[i][1] or 0
      call('LSET', KEYS[1], i - #entries - 1,
        format('%s %s %d %d %d', epoch1, entries[i][1], ahead, entries[i][2], entries[i][3]))
    end
    if last < #entries then -- empty entries
      call('LTRIM', KEYS[1], 0, last - #entries - 1)
    end
  end
-- limit/slidinglog.lua, release
elseif sum1 > 0 then
  -- limit/slidinglog.lua, oldest
  if n >= sum1 then
    call('UNLINK', KEYS[1])
  else
    local low, high = first1, length1 - 1
    local oldest = format('%s %d %d %d %d', epoch1, time1, at1 - time1, sum1 - n, total1)
    while low < high do
      local index = floor((low + high) / 2)
      local entry = call('LINDEX', KEYS[1], index)
      local start, total = match(entry, '^(%w+ %d+ %d+ )%d+ (%d+)$')
      if not start then
        return {3, 1, entry}
      end
      local upto = total - base1
      if upto < 0 then
        upto = upto + 9007199254740992
      end
      if upto > n then
        high, oldest = index, start .. format('%d %s', upto - n, total)
      else
        low = index + 1
      end
    end
    if low < length1 - 1 then
      call('LSET', KEYS[1], -1, format('%s %d %d %d %d', epoch1, time1, at1 - time1, count1, total1))
    end
    if low > 0 then
      call('LTRIM', KEYS[1], low, -1)
    end
    call('LSET', KEYS[1], 0, oldest)
  end
-- limit/slidinglog.lua, release
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
-- limit/slidinglog.lua, read
local most1, at1, first1, base1, length1, sum1 = tonumber(ARGV[2]), millis, 0, 0, 0, 0
local time1, count1, total1, epoch1, text1 = 0, 0, 0, false, ''
local match = string.match
local KEYS = KEYS
do
  local found = call('LRANGE', KEYS[1], 0, 7)
  length1, text1 = #found, found[#found] or ''
  if length1 == 8 then
    length1, text1 = call('LLEN', KEYS[1]), call('LINDEX', KEYS[1], -1)
  end
  local word, time, ahead, count, total = match(text1, '^(%w+) (%d+) (%d+) (%d+) (%d+)$')
  if found[1] and (not word or #text1 > 99 or time + ahead > 9007199254740992
      or max(count, total) > 9007199254740992) then
    return {3, 1, text1}
  end
  if word then
    at1 = max(millis, time + ahead)
  end
  local limit = at1 - ARGV[3]
  if word and tonumber(time) > limit then
    epoch1, time1, count1, total1 = word, tonumber(time), tonumber(count), tonumber(total)
    local high, oldest = length1 - 1, text1
    while first1 < high do
      local index = first1 < 7 and first1 or floor((first1 + high) / 2)
      local entry = index < 8 and found[index + 1] or call('LINDEX', KEYS[1], index)
      local other = match(entry, '^%w+ (%d+) %d+ %d+ %d+$')
      if not other then
        return {3, 1, entry}
      elseif tonumber(other) > limit then
        high, oldest = index, entry
      else
        first1 = index + 1
      end
    end
    count, total = match(oldest, '(%d+) (%d+)$')
    base1 = total - count
    sum1 = total1 - base1
    if sum1 < 0 or sum1 == 0 and count1 > 0 then
      sum1 = sum1 + 9007199254740992
    end
  end
end
-- limit/scripts/peek.lua
local answers, want = '*', 1
-- limit/slidinglog.lua, report
local report1 = {text1, sum1, 0}
if sum1 > 0 then
  report1[3] = (time1 + ARGV[3]) * 1000 - now
  local need, found, i = want - most1 + sum1, {}, 1
  if need > 0 then
    found = call('LRANGE', KEYS[1], first1, first1 + 7)
  end
  while need > 0 and found[i] do
    local time, count = match(found[i], '^%w+ (%d+) %d+ (%d+) %d+$')
    if not time then
      break
    end
    report1[#report1 + 1] = (time + ARGV[3]) * 1000 - now
    report1[#report1 + 1] = tonumber(count)
    need, i = need - count, i + 1
    if i == 9 and #report1 == 19 then
      found, i = call('LRANGE', KEYS[1], first1 + 8, first1 + 255), 1
    end
  end
end
-- limit/scripts/peek.lua
return {0, answers, report1}

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
-- limit/slidinglog.lua, read
local most1, at1, first1, base1, length1, sum1 = tonumber(ARGV[4]), millis, 0, 0, 0, 0
local time1, count1, total1, epoch1, text1 = 0, 0, 0, false, ''
local match = string.match
local KEYS = KEYS
do
  local found = call('LRANGE', KEYS[1], 0, 7)
  length1, text1 = #found, found[#found] or ''
  if length1 == 8 then
    length1, text1 = call('LLEN', KEYS[1]), call('LINDEX', KEYS[1], -1)
  end
  local word, time, ahead, count, total = match(text1, '^(%w+) (%d+) (%d+) (%d+) (%d+)$')
  if found[1] and (not word or #text1 > 99 or time + ahead > 9007199254740992
      or max(count, total) > 9007199254740992) then
    return {3, 1, text1}
  end
  if word then
    at1 = max(millis, time + ahead)
  end
  local limit = at1 - ARGV[5]
  if word and tonumber(time) > limit then
    epoch1, time1, count1, total1 = word, tonumber(time), tonumber(count), tonumber(total)
    local high, oldest = length1 - 1, text1
    while first1 < high do
      local index = first1 < 7 and first1 or floor((first1 + high) / 2)
      local entry = index < 8 and found[index + 1] or call('LINDEX', KEYS[1], index)
      local other = match(entry, '^%w+ (%d+) %d+ %d+ %d+$')
      if not other then
        return {3, 1, entry}
      elseif tonumber(other) > limit then
        high, oldest = index, entry
      else
        first1 = index + 1
      end
    end
    count, total = match(oldest, '(%d+) (%d+)$')
    base1 = total - count
    sum1 = total1 - base1
    if sum1 < 0 or sum1 == 0 and count1 > 0 then
      sum1 = sum1 + 9007199254740992
    end
  end
end
local free1 = most1 - sum1
-- limit/scripts/drain.lua
local epoch = ARGV[3]
local leave, answers, want, granted = ARGV[1] + 0, nil, 1, 0
-- limit/scripts/include/drain.lua
local min = math.min
granted = min(free1) - leave
if granted > 0 then
  local format = string.format
  local amount = format('%d', granted)
  -- limit/slidinglog.lua, take
  do
    local n = min(granted, 9007199254740992 - sum1) -- only Charge reaches this
    sum1, total1 = sum1 + n, total1 - (9007199254740992 - n)
    if total1 < 0 then
      total1 = total1 + 9007199254740992
    end
    if epoch1 and time1 == at1 then
      count1 = count1 + n
      text1 = format('%s %d 0 %d %d', epoch1, time1, count1, total1)
      call('LSET', KEYS[1], -1, text1)
    else
      if not epoch1 then
        epoch1 = epoch
        if text1 ~= '' then
          call('UNLINK', KEYS[1])
        end
      end
      time1, count1 = at1, n
      text1 = format('%s %d 0 %d %d', epoch1, time1, count1, total1)
      call('RPUSH', KEYS[1], text1)
    end
    call('PEXPIRE', KEYS[1], ARGV[5])
    if first1 > 0 then
      call('LTRIM', KEYS[1], first1, -1)
      first1 = 0
    end
  end
-- limit/scripts/include/drain.lua
end
-- limit/scripts/drain.lua
answers = '*'
-- limit/slidinglog.lua, report
local report1 = {text1, sum1, 0}
if sum1 > 0 then
  report1[3] = (time1 + ARGV[5]) * 1000 - now
  local need, found, i = want - most1 + sum1, {}, 1
  if need > 0 then
    found = call('LRANGE', KEYS[1], first1, first1 + 7)
  end
  while need > 0 and found[i] do
    local time, count = match(found[i], '^%w+ (%d+) %d+ (%d+) %d+$')
    if not time then
      break
    end
    report1[#report1 + 1] = (time + ARGV[5]) * 1000 - now
    report1[#report1 + 1] = tonumber(count)
    need, i = need - count, i + 1
    if i == 9 and #report1 == 19 then
      found, i = call('LRANGE', KEYS[1], first1 + 8, first1 + 255), 1
    end
  end
end
-- limit/scripts/drain.lua
return {0, '*', report1}

