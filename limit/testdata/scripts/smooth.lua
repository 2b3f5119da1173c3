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
-- limit/scripts/acquire.lua
local backdate = tonumber(ARGV[8 + 3] or '')
-- limit/smooth.lua, read
local stable1, size1, cool1 = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local threshold1, slope1 = tonumber(ARGV[7]), tonumber(ARGV[8])
local rate1, other1 = ARGV[5] .. ':' .. ARGV[6], false
local KEYS = KEYS
local at1, stored1, next1, epoch1, text1 = now, size1, now, false, call('GET', KEYS[1]) or ''
local min = math.min
if text1 ~= '' then
  local match = string.match
  local word, stored, at, wait, rate = match(text1, '^(%w+) (%d[%d.e+-]*) (%d+) (%d+) ([%d.:]+)$')
  stored = tonumber(stored or '')
  if not stored or #at > 16 or #wait > 16 then
    return {3, 1, text1}
  end
  at1 = max(now, min(9007199254740992, tonumber(at)))
  stored1, next1 = min(stored, size1), min(9007199254740992, at + wait)
  if at1 > next1 then
    at1 = max(next1, at1 - (backdate or 0)) -- from which the permits of a waiter count
    stored1, next1 = min(size1, stored1 + (at1 - next1) / cool1), at1
  end
  epoch1, other1 = (next1 > at1 or stored1 < size1) and word, rate ~= rate1
end
local free1, most1, credit1, left1 = 9007199254740992, 9007199254740992, -1, 0
local floor = math.floor
local ceil = math.ceil
if next1 <= at1 then
  credit1 = ceil(1 / (stable1 + (slope1 and slope1 * (size1 - threshold1) or 0))) - 1 + (slope1 and 0 or stored1)
  if at1 < now then
    credit1 = credit1 + floor((now - at1) / (stable1 + (slope1 and slope1 * max(0, stored1 - threshold1) or 0)))
  end
  left1 = stored1
end
-- limit/scripts/acquire.lua
local total, free, most, credit = ARGV[1] + 0, free1, most1, 9007199254740992
-- limit/smooth.lua, credit
credit = min(credit, credit1)
-- limit/scripts/acquire.lua
local amount, flags, runs = ARGV[1], ARGV[8 + 1], ARGV[8 + 2]
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
local prefetched, span = nil, ARGV[8 + 5]
if span and span ~= '' then
  prefetched, span = 0, tonumber(span)
  if granted == total and span > 0 then
    prefetched = max(0, min(tonumber(ARGV[8 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + prefetched
    amount = string.format('%d', granted)
  end
end
-- limit/smooth.lua, settle
local format = string.format
if granted == 0 and other1 and epoch1 then
  -- limit/smooth.lua, life
  local life = floor((next1 - now + ceil((size1 - stored1) * cool1)) / 1000) + 1001
  -- limit/smooth.lua, settle
  if call('PTTL', KEYS[1]) < life - 1001 then
    -- limit/smooth.lua, write
    if next1 > at1 or stored1 < size1 then
      -- limit/smooth.lua, life
      local life = floor((next1 - now + ceil((size1 - stored1) * cool1)) / 1000) + 1001
      -- limit/smooth.lua, write
      local left = other1 and call('PTTL', KEYS[1]) or 0
      text1 = format('%s %.17g %d %d %s', epoch1, stored1, at1, next1 - at1, left > life and '0' or rate1)
      call('SET', KEYS[1], text1, 'PX', format('%d', max(left, life)))
    else
      text1 = ''
      call('UNLINK', KEYS[1])
    end
  -- limit/smooth.lua, settle
  end
end
-- limit/scripts/acquire.lua
if granted > 0 then
  -- limit/smooth.lua, take
  if not epoch1 then
    epoch1, other1 = epoch, false
  end
  do
    local wait, spent = 0, min(granted, stored1)
    if slope1 then
      local above, below = stored1 - threshold1, spent
      if above > 0 then
        local expensive = min(above, below)
        wait = floor(expensive * ((stable1 + above * slope1) + (stable1 + (above - expensive) * slope1)) / 2)
        below = below - expensive
      end
      wait = wait + floor(stable1 * below)
    end
    wait = min(9007199254740992, wait + floor((granted - spent) * stable1))
    stored1, next1 = stored1 - spent, min(9007199254740992, next1 + wait)
  end
  left1 = slope1 and next1 > at1 and 0 or left1 - granted
  -- limit/smooth.lua, write
  if next1 > at1 or stored1 < size1 then
    -- limit/smooth.lua, life
    local life = floor((next1 - now + ceil((size1 - stored1) * cool1)) / 1000) + 1001
    -- limit/smooth.lua, write
    local left = other1 and call('PTTL', KEYS[1]) or 0
    text1 = format('%s %.17g %d %d %s', epoch1, stored1, at1, next1 - at1, left > life and '0' or rate1)
    call('SET', KEYS[1], text1, 'PX', format('%d', max(left, life)))
  else
    text1 = ''
    call('UNLINK', KEYS[1])
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
-- limit/smooth.lua, report
local report1 = {text1, floor(left1), 0, 0}
if next1 > at1 or stored1 < size1 then
  report1[3], report1[4] = next1 > at1 and max(0, next1 - now) or 0, max(0, next1 - now) + ceil((size1 - stored1) * cool1)
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
local backdate = tonumber(ARGV[8 + 3] or '')
local KEYS = KEYS
local waiters, id, late = KEYS[2], ARGV[8 + 6], ARGV[8 + 7] + 0
local rest, lead, permit = ARGV[8 + 8] + 0, ARGV[8 + 9] + 0, ARGV[8 + 10] + 0
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
-- limit/smooth.lua, read
local stable1, size1, cool1 = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local threshold1, slope1 = tonumber(ARGV[7]), tonumber(ARGV[8])
local rate1, other1 = ARGV[5] .. ':' .. ARGV[6], false
local at1, stored1, next1, epoch1, text1 = now, size1, now, false, call('GET', KEYS[1]) or ''
local min = math.min
if text1 ~= '' then
  local match = string.match
  local word, stored, at, wait, rate = match(text1, '^(%w+) (%d[%d.e+-]*) (%d+) (%d+) ([%d.:]+)$')
  stored = tonumber(stored or '')
  if not stored or #at > 16 or #wait > 16 then
    return {3, 1, text1}
  end
  at1 = max(now, min(9007199254740992, tonumber(at)))
  stored1, next1 = min(stored, size1), min(9007199254740992, at + wait)
  if at1 > next1 then
    at1 = max(next1, at1 - (backdate or 0)) -- from which the permits of a waiter count
    stored1, next1 = min(size1, stored1 + (at1 - next1) / cool1), at1
  end
  epoch1, other1 = (next1 > at1 or stored1 < size1) and word, rate ~= rate1
end
local free1, most1, credit1, left1 = 9007199254740992, 9007199254740992, -1, 0
if next1 <= at1 then
  credit1 = ceil(1 / (stable1 + (slope1 and slope1 * (size1 - threshold1) or 0))) - 1 + (slope1 and 0 or stored1)
  if at1 < now then
    credit1 = credit1 + floor((now - at1) / (stable1 + (slope1 and slope1 * max(0, stored1 - threshold1) or 0)))
  end
  left1 = stored1
end
-- limit/scripts/acquire.lua
local total, free, most, credit = ARGV[1] + 0, free1, most1, 9007199254740992
-- limit/smooth.lua, credit
credit = min(credit, credit1)
-- limit/scripts/acquire.lua
local holds, reach = true, 0
-- internal/include/share.lua
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
local amount, flags, runs = ARGV[1], ARGV[8 + 1], ARGV[8 + 2]
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
local prefetched, span = nil, ARGV[8 + 5]
if span and span ~= '' then
  prefetched, span = 0, tonumber(span)
  if granted == total and span > 0 then
    prefetched = max(0, min(tonumber(ARGV[8 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + prefetched
    amount = string.format('%d', granted)
  end
end
-- limit/smooth.lua, settle
local format = string.format
if granted == 0 and other1 and epoch1 then
  -- limit/smooth.lua, life
  local life = floor((next1 - now + ceil((size1 - stored1) * cool1)) / 1000) + 1001
  -- limit/smooth.lua, settle
  if call('PTTL', KEYS[1]) < life - 1001 then
    -- limit/smooth.lua, write
    if next1 > at1 or stored1 < size1 then
      -- limit/smooth.lua, life
      local life = floor((next1 - now + ceil((size1 - stored1) * cool1)) / 1000) + 1001
      -- limit/smooth.lua, write
      local left = other1 and call('PTTL', KEYS[1]) or 0
      text1 = format('%s %.17g %d %d %s', epoch1, stored1, at1, next1 - at1, left > life and '0' or rate1)
      call('SET', KEYS[1], text1, 'PX', format('%d', max(left, life)))
    else
      text1 = ''
      call('UNLINK', KEYS[1])
    end
  -- limit/smooth.lua, settle
  end
end
-- limit/scripts/acquire.lua
if granted > 0 then
  -- limit/smooth.lua, take
  if not epoch1 then
    epoch1, other1 = epoch, false
  end
  do
    local wait, spent = 0, min(granted, stored1)
    if slope1 then
      local above, below = stored1 - threshold1, spent
      if above > 0 then
        local expensive = min(above, below)
        wait = floor(expensive * ((stable1 + above * slope1) + (stable1 + (above - expensive) * slope1)) / 2)
        below = below - expensive
      end
      wait = wait + floor(stable1 * below)
    end
    wait = min(9007199254740992, wait + floor((granted - spent) * stable1))
    stored1, next1 = stored1 - spent, min(9007199254740992, next1 + wait)
  end
  left1 = slope1 and next1 > at1 and 0 or left1 - granted
  -- limit/smooth.lua, write
  if next1 > at1 or stored1 < size1 then
    -- limit/smooth.lua, life
    local life = floor((next1 - now + ceil((size1 - stored1) * cool1)) / 1000) + 1001
    -- limit/smooth.lua, write
    local left = other1 and call('PTTL', KEYS[1]) or 0
    text1 = format('%s %.17g %d %d %s', epoch1, stored1, at1, next1 - at1, left > life and '0' or rate1)
    call('SET', KEYS[1], text1, 'PX', format('%d', max(left, life)))
  else
    text1 = ''
    call('UNLINK', KEYS[1])
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
-- limit/smooth.lua, report
local report1 = {text1, floor(left1), 0, 0}
if next1 > at1 or stored1 < size1 then
  report1[3], report1[4] = next1 > at1 and max(0, next1 - now) or 0, max(0, next1 - now) + ceil((size1 - stored1) * cool1)
end
-- limit/scripts/acquire.lua
local next, batch, window, ends, drips = 0, nil, 0, 0, false
-- limit/smooth.lua, next
next = max(next, next1 - now)
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
-- limit/scripts/charge.lua
local backdate = nil
-- limit/smooth.lua, read
local stable1, size1, cool1 = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local threshold1, slope1 = tonumber(ARGV[7]), tonumber(ARGV[8])
local rate1, other1 = ARGV[5] .. ':' .. ARGV[6], false
local KEYS = KEYS
local at1, stored1, next1, epoch1, text1 = now, size1, now, false, call('GET', KEYS[1]) or ''
local min = math.min
if text1 ~= '' then
  local match = string.match
  local word, stored, at, wait, rate = match(text1, '^(%w+) (%d[%d.e+-]*) (%d+) (%d+) ([%d.:]+)$')
  stored = tonumber(stored or '')
  if not stored or #at > 16 or #wait > 16 then
    return {3, 1, text1}
  end
  at1 = max(now, min(9007199254740992, tonumber(at)))
  stored1, next1 = min(stored, size1), min(9007199254740992, at + wait)
  if at1 > next1 then
    at1 = max(next1, at1 - (backdate or 0)) -- from which the permits of a waiter count
    stored1, next1 = min(size1, stored1 + (at1 - next1) / cool1), at1
  end
  epoch1, other1 = (next1 > at1 or stored1 < size1) and word, rate ~= rate1
end
local free1, most1, credit1, left1 = 9007199254740992, 9007199254740992, -1, 0
local floor = math.floor
local ceil = math.ceil
if next1 <= at1 then
  credit1 = ceil(1 / (stable1 + (slope1 and slope1 * (size1 - threshold1) or 0))) - 1 + (slope1 and 0 or stored1)
  if at1 < now then
    credit1 = credit1 + floor((now - at1) / (stable1 + (slope1 and slope1 * max(0, stored1 - threshold1) or 0)))
  end
  left1 = stored1
end
-- limit/scripts/charge.lua
local epoch = ARGV[3]
local granted, answers, want = ARGV[1] + 0, nil, 1
-- limit/smooth.lua, take
if not epoch1 then
  epoch1, other1 = epoch, false
end
do
  local wait, spent = 0, min(granted, stored1)
  if slope1 then
    local above, below = stored1 - threshold1, spent
    if above > 0 then
      local expensive = min(above, below)
      wait = floor(expensive * ((stable1 + above * slope1) + (stable1 + (above - expensive) * slope1)) / 2)
      below = below - expensive
    end
    wait = wait + floor(stable1 * below)
  end
  wait = min(9007199254740992, wait + floor((granted - spent) * stable1))
  stored1, next1 = stored1 - spent, min(9007199254740992, next1 + wait)
end
left1 = slope1 and next1 > at1 and 0 or left1 - granted
-- limit/smooth.lua, write
if next1 > at1 or stored1 < size1 then
  -- limit/smooth.lua, life
  local life = floor((next1 - now + ceil((size1 - stored1) * cool1)) / 1000) + 1001
  -- limit/smooth.lua, write
  local left = other1 and call('PTTL', KEYS[1]) or 0
  local format = string.format
  text1 = format('%s %.17g %d %d %s', epoch1, stored1, at1, next1 - at1, left > life and '0' or rate1)
  call('SET', KEYS[1], text1, 'PX', format('%d', max(left, life)))
else
  text1 = ''
  call('UNLINK', KEYS[1])
end
-- limit/smooth.lua, report
local report1 = {text1, floor(left1), 0, 0}
if next1 > at1 or stored1 < size1 then
  report1[3], report1[4] = next1 > at1 and max(0, next1 - now) or 0, max(0, next1 - now) + ceil((size1 - stored1) * cool1)
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
-- limit/scripts/release.lua
local backdate = nil
-- limit/smooth.lua, read
local stable1, size1, cool1 = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local threshold1, slope1 = tonumber(ARGV[7]), tonumber(ARGV[8])
local rate1, other1 = ARGV[5] .. ':' .. ARGV[6], false
local KEYS = KEYS
local at1, stored1, next1, epoch1, text1 = now, size1, now, false, call('GET', KEYS[1]) or ''
local min = math.min
local match = string.match
if text1 ~= '' then
  local word, stored, at, wait, rate = match(text1, '^(%w+) (%d[%d.e+-]*) (%d+) (%d+) ([%d.:]+)$')
  stored = tonumber(stored or '')
  if not stored or #at > 16 or #wait > 16 then
    return {3, 1, text1}
  end
  at1 = max(now, min(9007199254740992, tonumber(at)))
  stored1, next1 = min(stored, size1), min(9007199254740992, at + wait)
  if at1 > next1 then
    at1 = max(next1, at1 - (backdate or 0)) -- from which the permits of a waiter count
    stored1, next1 = min(size1, stored1 + (at1 - next1) / cool1), at1
  end
  epoch1, other1 = (next1 > at1 or stored1 < size1) and word, rate ~= rate1
end
local free1, most1, credit1, left1 = 9007199254740992, 9007199254740992, -1, 0
local floor = math.floor
local ceil = math.ceil
if next1 <= at1 then
  credit1 = ceil(1 / (stable1 + (slope1 and slope1 * (size1 - threshold1) or 0))) - 1 + (slope1 and 0 or stored1)
  if at1 < now then
    credit1 = credit1 + floor((now - at1) / (stable1 + (slope1 and slope1 * max(0, stored1 - threshold1) or 0)))
  end
  left1 = stored1
end
-- limit/scripts/release.lua
local n, age = tonumber(ARGV[1]), ARGV[2]
local receipts = {unpack(ARGV, 8 + 1)}
-- limit/smooth.lua, release
do
  local receipt = receipts[1]
  local back = n * stable1
  if receipt then
    local word, at, wait = match(receipt, '^(%w+) %S+ (%d+) (%d+) ')
    back = word and word == epoch1 and min(back, wait + 0) - (at1 - at) or 0
  end
  back = min(floor(back), next1 - at1)
  if back > 0 then
    next1 = next1 - back
    -- limit/smooth.lua, write
    if next1 > at1 or stored1 < size1 then
      -- limit/smooth.lua, life
      local life = floor((next1 - now + ceil((size1 - stored1) * cool1)) / 1000) + 1001
      -- limit/smooth.lua, write
      local left = other1 and call('PTTL', KEYS[1]) or 0
      local format = string.format
      text1 = format('%s %.17g %d %d %s', epoch1, stored1, at1, next1 - at1, left > life and '0' or rate1)
      call('SET', KEYS[1], text1, 'PX', format('%d', max(left, life)))
    else
      text1 = ''
      call('UNLINK', KEYS[1])
    end
  -- limit/smooth.lua, release
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
-- limit/scripts/peek.lua
local backdate = nil
-- limit/smooth.lua, read
local stable1, size1, cool1 = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local threshold1, slope1 = tonumber(ARGV[5]), tonumber(ARGV[6])
local rate1, other1 = ARGV[3] .. ':' .. ARGV[4], false
local KEYS = KEYS
local at1, stored1, next1, epoch1, text1 = now, size1, now, false, call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local match = string.match
  local word, stored, at, wait, rate = match(text1, '^(%w+) (%d[%d.e+-]*) (%d+) (%d+) ([%d.:]+)$')
  stored = tonumber(stored or '')
  if not stored or #at > 16 or #wait > 16 then
    return {3, 1, text1}
  end
  local min = math.min
  at1 = max(now, min(9007199254740992, tonumber(at)))
  stored1, next1 = min(stored, size1), min(9007199254740992, at + wait)
  if at1 > next1 then
    at1 = max(next1, at1 - (backdate or 0)) -- from which the permits of a waiter count
    stored1, next1 = min(size1, stored1 + (at1 - next1) / cool1), at1
  end
  epoch1, other1 = (next1 > at1 or stored1 < size1) and word, rate ~= rate1
end
local free1, most1, credit1, left1 = 9007199254740992, 9007199254740992, -1, 0
local floor = math.floor
local ceil = math.ceil
if next1 <= at1 then
  credit1 = ceil(1 / (stable1 + (slope1 and slope1 * (size1 - threshold1) or 0))) - 1 + (slope1 and 0 or stored1)
  if at1 < now then
    credit1 = credit1 + floor((now - at1) / (stable1 + (slope1 and slope1 * max(0, stored1 - threshold1) or 0)))
  end
  left1 = stored1
end
-- limit/scripts/peek.lua
local answers, want = '*', 1
-- limit/smooth.lua, report
local report1 = {text1, floor(left1), 0, 0}
if next1 > at1 or stored1 < size1 then
  report1[3], report1[4] = next1 > at1 and max(0, next1 - now) or 0, max(0, next1 - now) + ceil((size1 - stored1) * cool1)
end
-- limit/smooth.lua, peek
if epoch1 and other1 then
  report1[5] = max(0, call('PTTL', KEYS[1])) * 1000
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
-- limit/scripts/drain.lua
local backdate = nil
-- limit/smooth.lua, read
local stable1, size1, cool1 = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local threshold1, slope1 = tonumber(ARGV[7]), tonumber(ARGV[8])
local rate1, other1 = ARGV[5] .. ':' .. ARGV[6], false
local KEYS = KEYS
local at1, stored1, next1, epoch1, text1 = now, size1, now, false, call('GET', KEYS[1]) or ''
local min = math.min
if text1 ~= '' then
  local match = string.match
  local word, stored, at, wait, rate = match(text1, '^(%w+) (%d[%d.e+-]*) (%d+) (%d+) ([%d.:]+)$')
  stored = tonumber(stored or '')
  if not stored or #at > 16 or #wait > 16 then
    return {3, 1, text1}
  end
  at1 = max(now, min(9007199254740992, tonumber(at)))
  stored1, next1 = min(stored, size1), min(9007199254740992, at + wait)
  if at1 > next1 then
    at1 = max(next1, at1 - (backdate or 0)) -- from which the permits of a waiter count
    stored1, next1 = min(size1, stored1 + (at1 - next1) / cool1), at1
  end
  epoch1, other1 = (next1 > at1 or stored1 < size1) and word, rate ~= rate1
end
local free1, most1, credit1, left1 = 9007199254740992, 9007199254740992, -1, 0
local floor = math.floor
local ceil = math.ceil
if next1 <= at1 then
  credit1 = ceil(1 / (stable1 + (slope1 and slope1 * (size1 - threshold1) or 0))) - 1 + (slope1 and 0 or stored1)
  if at1 < now then
    credit1 = credit1 + floor((now - at1) / (stable1 + (slope1 and slope1 * max(0, stored1 - threshold1) or 0)))
  end
  left1 = stored1
end
-- limit/scripts/drain.lua
local epoch = ARGV[3]
local leave, answers, want, granted = ARGV[1] + 0, nil, 1, 0
-- limit/scripts/include/drain.lua
granted = min(floor(left1)) - leave
if granted > 0 then
  local format = string.format
  local amount = format('%d', granted)
  -- limit/smooth.lua, take
  if not epoch1 then
    epoch1, other1 = epoch, false
  end
  do
    local wait, spent = 0, min(granted, stored1)
    if slope1 then
      local above, below = stored1 - threshold1, spent
      if above > 0 then
        local expensive = min(above, below)
        wait = floor(expensive * ((stable1 + above * slope1) + (stable1 + (above - expensive) * slope1)) / 2)
        below = below - expensive
      end
      wait = wait + floor(stable1 * below)
    end
    wait = min(9007199254740992, wait + floor((granted - spent) * stable1))
    stored1, next1 = stored1 - spent, min(9007199254740992, next1 + wait)
  end
  left1 = slope1 and next1 > at1 and 0 or left1 - granted
  -- limit/smooth.lua, write
  if next1 > at1 or stored1 < size1 then
    -- limit/smooth.lua, life
    local life = floor((next1 - now + ceil((size1 - stored1) * cool1)) / 1000) + 1001
    -- limit/smooth.lua, write
    local left = other1 and call('PTTL', KEYS[1]) or 0
    text1 = format('%s %.17g %d %d %s', epoch1, stored1, at1, next1 - at1, left > life and '0' or rate1)
    call('SET', KEYS[1], text1, 'PX', format('%d', max(left, life)))
  else
    text1 = ''
    call('UNLINK', KEYS[1])
  end
-- limit/scripts/include/drain.lua
end
-- limit/scripts/drain.lua
answers = '*'
-- limit/smooth.lua, report
local report1 = {text1, floor(left1), 0, 0}
if next1 > at1 or stored1 < size1 then
  report1[3], report1[4] = next1 > at1 and max(0, next1 - now) or 0, max(0, next1 - now) + ceil((size1 - stored1) * cool1)
end
-- limit/smooth.lua, peek
if epoch1 and other1 then
  report1[5] = max(0, call('PTTL', KEYS[1])) * 1000
end
-- limit/scripts/drain.lua
return {0, '*', report1}

