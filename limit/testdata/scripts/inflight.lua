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
-- limit/inflight.lua, read
local most1, at1, held1, first1, dead1, text1 = ARGV[3] + 0, millis, 0, nil, {}, ''
local match = string.match
local format = string.format
local KEYS = KEYS
do
  local found = call('ZRANGE', KEYS[1], 0, 2, 'WITHSCORES')
  if found[1] then
    local score = {[found[1]] = found[2], [found[3] or ''] = found[4]}
    local latest = score.clock
    if not latest or not score.held or max(latest, score.held) > -1 then
      return {3, 1, found[1]}
    end
    held1, at1, first1 = -score.held, max(at1, -1 - latest), tonumber(found[6] or '')
    if first1 and first1 <= at1 then
      dead1 = call('ZRANGEBYSCORE', KEYS[1], 0, format('%d', at1), 'WITHSCORES', 'LIMIT', 0, 256)
      for i = 1, #dead1, 2 do
        local count = match(dead1[i], '^%w+ %d+ (%d+) %d+$')
        if not count then
          return {3, 1, dead1[i]}
        elseif dead1[i + 1] ~= '0' then
          held1 = held1 - count
        end
      end
      local next = call('ZRANGEBYSCORE', KEYS[1], format('(%d', at1), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      first1 = tonumber(next[2] or '')
    end
    if not first1 then
      held1 = 0
    end
  end
end
local free1 = most1 - held1
-- limit/scripts/acquire.lua
local total, free, most, credit = ARGV[1] + 0, free1, most1, 9007199254740992
local amount, flags, runs = ARGV[1], ARGV[5 + 1], ARGV[5 + 2]
local granted, answers, above, want, missed = 0, nil, false, 0, nil
-- limit/inflight.lua, more
if total > free and first1 and #dead1 == 512 then
  -- limit/inflight.lua, drop
  do
    local change, gone = {-1 - at1, 'clock', -held1, 'held'}, {}
    for i = 1, #dead1, 2 do
      change[#change + 1] = 0
      change[#change + 1] = dead1[i]
      gone[#gone + 1] = dead1[i]
    end
    call('ZADD', KEYS[1], unpack(change))
    call('ZREM', KEYS[1], unpack(gone))
  end
  -- limit/inflight.lua, more
  return {1, format('%d', now)}
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
  -- limit/inflight.lua, place
  if dead1[1] then
    text1 = format('%d', #dead1 / 2)
    if first1 then
      -- limit/inflight.lua, drop
      do
        local change, gone = {-1 - at1, 'clock', -held1, 'held'}, {}
        for i = 1, #dead1, 2 do
          change[#change + 1] = 0
          change[#change + 1] = dead1[i]
          gone[#gone + 1] = dead1[i]
        end
        call('ZADD', KEYS[1], unpack(change))
        call('ZREM', KEYS[1], unpack(gone))
      end
    -- limit/inflight.lua, place
    else
      call('UNLINK', KEYS[1])
    end
  end
  do
    held1 = held1 + granted
    local finish, change, n = at1 + ARGV[4], {-1 - at1, 'clock', -held1, 'held'}, 0
    for permits, times in string.gmatch(runs or format('%d*1', granted), '(%d+)%*(%d+)') do
      for _ = 1, times + 0 do
        n = n + 1
        local letter = answers and string.sub(answers, n, n) or 'g'
        if letter == 'p' then
          permits = match(answers, '%d+$')
        end
        if letter == 'g' or letter == 'p' then
          change[#change + 1] = finish
          change[#change + 1] = format('%s %d %s %s', ARGV[5], n - 1, permits, ARGV[4])
        end
      end
    end
    first1 = min(first1 or finish, finish)
    call('ZADD', KEYS[1], unpack(change))
    call('PEXPIRE', KEYS[1], format('%d', max(call('PTTL', KEYS[1]), 2 * ARGV[4])))
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
-- limit/inflight.lua, report
local report1 = {text1, held1, 0, 0}
if held1 > 0 then
  local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  report1[3], report1[4] = last * 1000 - now, first1 * 1000 - now
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
-- limit/inflight.lua, read
local most1, at1, held1, first1, dead1, text1 = ARGV[3] + 0, millis, 0, nil, {}, ''
local match = string.match
local format = string.format
do
  local found = call('ZRANGE', KEYS[1], 0, 2, 'WITHSCORES')
  if found[1] then
    local score = {[found[1]] = found[2], [found[3] or ''] = found[4]}
    local latest = score.clock
    if not latest or not score.held or max(latest, score.held) > -1 then
      return {3, 1, found[1]}
    end
    held1, at1, first1 = -score.held, max(at1, -1 - latest), tonumber(found[6] or '')
    if first1 and first1 <= at1 then
      dead1 = call('ZRANGEBYSCORE', KEYS[1], 0, format('%d', at1), 'WITHSCORES', 'LIMIT', 0, 256)
      for i = 1, #dead1, 2 do
        local count = match(dead1[i], '^%w+ %d+ (%d+) %d+$')
        if not count then
          return {3, 1, dead1[i]}
        elseif dead1[i + 1] ~= '0' then
          held1 = held1 - count
        end
      end
      local next = call('ZRANGEBYSCORE', KEYS[1], format('(%d', at1), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      first1 = tonumber(next[2] or '')
    end
    if not first1 then
      held1 = 0
    end
  end
end
local free1 = most1 - held1
-- limit/scripts/acquire.lua
local total, free, most, credit = ARGV[1] + 0, free1, most1, 9007199254740992
local holds, reach = true, 0
-- limit/inflight.lua, hold
local since1 = t + 3e15 - (rival and tonumber(redis.pcall('ZSCORE', waiters, 'held')) or 0)
since1 = since1 < 0 and 250 or since1 -- the clock of Redis has gone back
holds = since1 >= 250 or since1 <= 60
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
local granted, answers, above, want, missed = 0, nil, false, 0, nil
-- limit/inflight.lua, more
if total > free and first1 and #dead1 == 512 then
  -- limit/inflight.lua, drop
  do
    local change, gone = {-1 - at1, 'clock', -held1, 'held'}, {}
    for i = 1, #dead1, 2 do
      change[#change + 1] = 0
      change[#change + 1] = dead1[i]
      gone[#gone + 1] = dead1[i]
    end
    call('ZADD', KEYS[1], unpack(change))
    call('ZREM', KEYS[1], unpack(gone))
  end
  -- limit/inflight.lua, more
  return {1, format('%d', now)}
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
  -- limit/inflight.lua, place
  if dead1[1] then
    text1 = format('%d', #dead1 / 2)
    if first1 then
      -- limit/inflight.lua, drop
      do
        local change, gone = {-1 - at1, 'clock', -held1, 'held'}, {}
        for i = 1, #dead1, 2 do
          change[#change + 1] = 0
          change[#change + 1] = dead1[i]
          gone[#gone + 1] = dead1[i]
        end
        call('ZADD', KEYS[1], unpack(change))
        call('ZREM', KEYS[1], unpack(gone))
      end
    -- limit/inflight.lua, place
    else
      call('UNLINK', KEYS[1])
    end
  end
  do
    held1 = held1 + granted
    local finish, change, n = at1 + ARGV[4], {-1 - at1, 'clock', -held1, 'held'}, 0
    for permits, times in string.gmatch(runs or format('%d*1', granted), '(%d+)%*(%d+)') do
      for _ = 1, times + 0 do
        n = n + 1
        local letter = answers and string.sub(answers, n, n) or 'g'
        if letter == 'p' then
          permits = match(answers, '%d+$')
        end
        if letter == 'g' or letter == 'p' then
          change[#change + 1] = finish
          change[#change + 1] = format('%s %d %s %s', ARGV[5], n - 1, permits, ARGV[4])
        end
      end
    end
    first1 = min(first1 or finish, finish)
    call('ZADD', KEYS[1], unpack(change))
    call('PEXPIRE', KEYS[1], format('%d', max(call('PTTL', KEYS[1]), 2 * ARGV[4])))
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
-- limit/inflight.lua, report
local report1 = {text1, held1, 0, 0}
if held1 > 0 then
  local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  report1[3], report1[4] = last * 1000 - now, first1 * 1000 - now
end
-- limit/scripts/acquire.lua
local next, batch, window, ends, drips = 0, nil, 0, 0, false
-- limit/inflight.lua, next
if (missed or 1) > most1 - held1 then
  report1[4] = rival and isFirst and granted == 0 and 20000 or 100000
  next = max(next, report1[4])
end
if held > 0 and since1 >= 250 then
  redis.pcall('ZADD', waiters, 3e15 + t, 'held')
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
-- limit/inflight.lua, read
local most1, at1, held1, first1, dead1, text1 = ARGV[3] + 0, millis, 0, nil, {}, ''
local KEYS = KEYS
do
  local found = call('ZRANGE', KEYS[1], 0, 2, 'WITHSCORES')
  if found[1] then
    local score = {[found[1]] = found[2], [found[3] or ''] = found[4]}
    local latest = score.clock
    if not latest or not score.held or max(latest, score.held) > -1 then
      return {3, 1, found[1]}
    end
    held1, at1, first1 = -score.held, max(at1, -1 - latest), tonumber(found[6] or '')
    if first1 and first1 <= at1 then
      local format = string.format
      dead1 = call('ZRANGEBYSCORE', KEYS[1], 0, format('%d', at1), 'WITHSCORES', 'LIMIT', 0, 256)
      local match = string.match
      for i = 1, #dead1, 2 do
        local count = match(dead1[i], '^%w+ %d+ (%d+) %d+$')
        if not count then
          return {3, 1, dead1[i]}
        elseif dead1[i + 1] ~= '0' then
          held1 = held1 - count
        end
      end
      local next = call('ZRANGEBYSCORE', KEYS[1], format('(%d', at1), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      first1 = tonumber(next[2] or '')
    end
    if not first1 then
      held1 = 0
    end
  end
end
-- limit/scripts/charge.lua
local granted, answers, want = ARGV[1] + 0, nil, 1
-- limit/inflight.lua, report
local report1 = {text1, held1, 0, 0}
if held1 > 0 then
  local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  report1[3], report1[4] = last * 1000 - now, first1 * 1000 - now
end
-- limit/scripts/charge.lua
return {0, '*', report1}

---- release
-- limit/scripts/release.lua
local ARGV = ARGV
local n, age = tonumber(ARGV[1]), ARGV[2]
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
-- limit/inflight.lua, read
local most1, at1, held1, first1, dead1, text1 = ARGV[2] + 0, millis, 0, nil, {}, ''
local KEYS = KEYS
do
  local found = call('ZRANGE', KEYS[1], 0, 2, 'WITHSCORES')
  if found[1] then
    local score = {[found[1]] = found[2], [found[3] or ''] = found[4]}
    local latest = score.clock
    if not latest or not score.held or max(latest, score.held) > -1 then
      return {3, 1, found[1]}
    end
    held1, at1, first1 = -score.held, max(at1, -1 - latest), tonumber(found[6] or '')
    if first1 and first1 <= at1 then
      local format = string.format
      dead1 = call('ZRANGEBYSCORE', KEYS[1], 0, format('%d', at1), 'WITHSCORES', 'LIMIT', 0, 256)
      local match = string.match
      for i = 1, #dead1, 2 do
        local count = match(dead1[i], '^%w+ %d+ (%d+) %d+$')
        if not count then
          return {3, 1, dead1[i]}
        elseif dead1[i + 1] ~= '0' then
          held1 = held1 - count
        end
      end
      local next = call('ZRANGEBYSCORE', KEYS[1], format('(%d', at1), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      first1 = tonumber(next[2] or '')
    end
    if not first1 then
      held1 = 0
    end
  end
end
-- limit/scripts/peek.lua
local answers, want = '*', 1
-- limit/inflight.lua, report
local report1 = {text1, held1, 0, 0}
if held1 > 0 then
  local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  report1[3], report1[4] = last * 1000 - now, first1 * 1000 - now
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
-- limit/inflight.lua, read
local most1, at1, held1, first1, dead1, text1 = ARGV[3] + 0, millis, 0, nil, {}, ''
local KEYS = KEYS
do
  local found = call('ZRANGE', KEYS[1], 0, 2, 'WITHSCORES')
  if found[1] then
    local score = {[found[1]] = found[2], [found[3] or ''] = found[4]}
    local latest = score.clock
    if not latest or not score.held or max(latest, score.held) > -1 then
      return {3, 1, found[1]}
    end
    held1, at1, first1 = -score.held, max(at1, -1 - latest), tonumber(found[6] or '')
    if first1 and first1 <= at1 then
      local format = string.format
      dead1 = call('ZRANGEBYSCORE', KEYS[1], 0, format('%d', at1), 'WITHSCORES', 'LIMIT', 0, 256)
      local match = string.match
      for i = 1, #dead1, 2 do
        local count = match(dead1[i], '^%w+ %d+ (%d+) %d+$')
        if not count then
          return {3, 1, dead1[i]}
        elseif dead1[i + 1] ~= '0' then
          held1 = held1 - count
        end
      end
      local next = call('ZRANGEBYSCORE', KEYS[1], format('(%d', at1), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
      first1 = tonumber(next[2] or '')
    end
    if not first1 then
      held1 = 0
    end
  end
end
-- limit/scripts/drain.lua
local leave, answers, want, granted = ARGV[1] + 0, nil, 1, 0
answers = '*'
-- limit/inflight.lua, report
local report1 = {text1, held1, 0, 0}
if held1 > 0 then
  local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  report1[3], report1[4] = last * 1000 - now, first1 * 1000 - now
end
-- limit/scripts/drain.lua
return {0, '*', report1}

