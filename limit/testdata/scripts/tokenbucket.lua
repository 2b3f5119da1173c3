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
local backdate = tonumber(ARGV[6 + 3] or '')
-- limit/tokenbucket.lua, read
local most1, refill1, interval1 = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local at1, missing1, refunded1, extra1, early1, epoch1, other1 = now, 0, 0, 0, 0, false, false
local KEYS = KEYS
local text1 = call('GET', KEYS[1]) or ''
local ceil = math.ceil
if text1 ~= '' then
  local match = string.match
  local word, at, taken, part, rate, rest = match(text1, '^(%w+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  local refunded, extra = match(rest or '', '^ (%d+) ?(-?%d*)$')
  if not word or #at > 18 or max(#taken, #part, #rate) > 16
      or rest ~= '' and (not refunded or max(#refunded, #extra) > 99) then
    return {3, 1, text1}
  end
  at1, missing1 = at + 0, tonumber(taken, 10) * interval1 + part
  if refunded then
    refunded1 = tonumber(refunded .. '.')
    extra1 = tonumber(extra .. '.') or 0
  end
  if rate ~= ARGV[5] or refunded and extra ~= '' then
    other1 = rate + 0
    extra1 = extra1 + max(0, now - at1) * (refill1 - other1)
  end
  if at1 < now then
    local full = at1 + ceil(missing1 / refill1)
    if backdate and full < now then
      at1, missing1 = max(full, now - backdate), 0
      early1 = (now - at1) * refill1
    else
      missing1, at1 = max(0, missing1 - (now - at1) * refill1), now
    end
  end
  epoch1 = missing1 > 0 and word
end
local fmod = math.fmod
local part1 = fmod(missing1, interval1)
local floor = math.floor
local taken1 = floor((missing1 - part1) / interval1 + 0.5)
local free1 = most1 - taken1 - (part1 > 0 and 1 or 0) + floor(early1 / interval1)
-- limit/scripts/acquire.lua
local total, free, most, credit = ARGV[1] + 0, free1, most1, 9007199254740992
local amount, flags, runs = ARGV[1], ARGV[6 + 1], ARGV[6 + 2]
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
local prefetched, span = nil, ARGV[6 + 5]
local min = math.min
if span and span ~= '' then
  prefetched, span = 0, tonumber(span)
  if granted == total and span > 0 then
    prefetched = max(0, min(tonumber(ARGV[6 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + prefetched
    amount = string.format('%d', granted)
  end
end
-- limit/tokenbucket.lua, settle
local format = string.format
if granted == 0 and other1 and epoch1 then
  -- limit/tokenbucket.lua, life
  local life = max(1, min(9007199254740, ceil((missing1 / refill1 + (at1 - now)) / 1000) + 1000))
  -- limit/tokenbucket.lua, settle
  if call('PTTL', KEYS[1]) < life - 1000 then
    -- limit/tokenbucket.lua, write
    part1 = fmod(missing1, interval1)
    taken1 = floor((missing1 - part1) / interval1 + 0.5)
    if missing1 > 0 then
      -- limit/tokenbucket.lua, life
      local life = max(1, min(9007199254740, ceil((missing1 / refill1 + (at1 - now)) / 1000) + 1000))
      -- limit/tokenbucket.lua, write
      text1 = format('%s %d %d %d %d', epoch1, at1, taken1, part1, other1 or refill1)
      if other1 then
        text1, life = text1 .. format(' %.0f %.0f', refunded1, extra1), max(call('PTTL', KEYS[1]), life)
      elseif refunded1 > 0 then
        text1 = text1 .. format(' %.0f', refunded1)
      end
      call('SET', KEYS[1], text1, 'PX', format('%d', life))
    else
      text1 = ''
      call('UNLINK', KEYS[1])
    end
  -- limit/tokenbucket.lua, settle
  end
end
-- limit/scripts/acquire.lua
if granted > 0 then
  -- limit/tokenbucket.lua, take
  if not epoch1 then
    epoch1, refunded1, extra1, other1 = epoch, 0, 0, false
  end
  missing1 = min(9007199254740992 * interval1, missing1 + granted * interval1)
  -- limit/tokenbucket.lua, write
  part1 = fmod(missing1, interval1)
  taken1 = floor((missing1 - part1) / interval1 + 0.5)
  if missing1 > 0 then
    -- limit/tokenbucket.lua, life
    local life = max(1, min(9007199254740, ceil((missing1 / refill1 + (at1 - now)) / 1000) + 1000))
    -- limit/tokenbucket.lua, write
    text1 = format('%s %d %d %d %d', epoch1, at1, taken1, part1, other1 or refill1)
    if other1 then
      text1, life = text1 .. format(' %.0f %.0f', refunded1, extra1), max(call('PTTL', KEYS[1]), life)
    elseif refunded1 > 0 then
      text1 = text1 .. format(' %.0f', refunded1)
    end
    call('SET', KEYS[1], text1, 'PX', format('%d', life))
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
-- limit/tokenbucket.lua, report
local report1 = {text1, taken1, part1, at1 - now}
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
local backdate = tonumber(ARGV[6 + 3] or '')
local KEYS = KEYS
local waiters, id, late = KEYS[2], ARGV[6 + 6], ARGV[6 + 7] + 0
local rest, lead, permit = ARGV[6 + 8] + 0, ARGV[6 + 9] + 0, ARGV[6 + 10] + 0
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
-- limit/tokenbucket.lua, read
local most1, refill1, interval1 = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local at1, missing1, refunded1, extra1, early1, epoch1, other1 = now, 0, 0, 0, 0, false, false
local text1 = call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local match = string.match
  local word, at, taken, part, rate, rest = match(text1, '^(%w+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  local refunded, extra = match(rest or '', '^ (%d+) ?(-?%d*)$')
  if not word or #at > 18 or max(#taken, #part, #rate) > 16
      or rest ~= '' and (not refunded or max(#refunded, #extra) > 99) then
    return {3, 1, text1}
  end
  at1, missing1 = at + 0, tonumber(taken, 10) * interval1 + part
  if refunded then
    refunded1 = tonumber(refunded .. '.')
    extra1 = tonumber(extra .. '.') or 0
  end
  if rate ~= ARGV[5] or refunded and extra ~= '' then
    other1 = rate + 0
    extra1 = extra1 + max(0, now - at1) * (refill1 - other1)
  end
  if at1 < now then
    local full = at1 + ceil(missing1 / refill1)
    if backdate and full < now then
      at1, missing1 = max(full, now - backdate), 0
      early1 = (now - at1) * refill1
    else
      missing1, at1 = max(0, missing1 - (now - at1) * refill1), now
    end
  end
  epoch1 = missing1 > 0 and word
end
local fmod = math.fmod
local part1 = fmod(missing1, interval1)
local taken1 = floor((missing1 - part1) / interval1 + 0.5)
local free1 = most1 - taken1 - (part1 > 0 and 1 or 0) + floor(early1 / interval1)
-- limit/scripts/acquire.lua
local total, free, most, credit = ARGV[1] + 0, free1, most1, 9007199254740992
local holds, reach = true, 0
-- internal/include/share.lua
local min = math.min
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
local amount, flags, runs = ARGV[1], ARGV[6 + 1], ARGV[6 + 2]
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
local prefetched, span = nil, ARGV[6 + 5]
if span and span ~= '' then
  prefetched, span = 0, tonumber(span)
  if granted == total and span > 0 then
    prefetched = max(0, min(tonumber(ARGV[6 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + prefetched
    amount = string.format('%d', granted)
  end
end
-- limit/tokenbucket.lua, settle
local format = string.format
if granted == 0 and other1 and epoch1 then
  -- limit/tokenbucket.lua, life
  local life = max(1, min(9007199254740, ceil((missing1 / refill1 + (at1 - now)) / 1000) + 1000))
  -- limit/tokenbucket.lua, settle
  if call('PTTL', KEYS[1]) < life - 1000 then
    -- limit/tokenbucket.lua, write
    part1 = fmod(missing1, interval1)
    taken1 = floor((missing1 - part1) / interval1 + 0.5)
    if missing1 > 0 then
      -- limit/tokenbucket.lua, life
      local life = max(1, min(9007199254740, ceil((missing1 / refill1 + (at1 - now)) / 1000) + 1000))
      -- limit/tokenbucket.lua, write
      text1 = format('%s %d %d %d %d', epoch1, at1, taken1, part1, other1 or refill1)
      if other1 then
        text1, life = text1 .. format(' %.0f %.0f', refunded1, extra1), max(call('PTTL', KEYS[1]), life)
      elseif refunded1 > 0 then
        text1 = text1 .. format(' %.0f', refunded1)
      end
      call('SET', KEYS[1], text1, 'PX', format('%d', life))
    else
      text1 = ''
      call('UNLINK', KEYS[1])
    end
  -- limit/tokenbucket.lua, settle
  end
end
-- limit/scripts/acquire.lua
if granted > 0 then
  -- limit/tokenbucket.lua, take
  if not epoch1 then
    epoch1, refunded1, extra1, other1 = epoch, 0, 0, false
  end
  missing1 = min(9007199254740992 * interval1, missing1 + granted * interval1)
  -- limit/tokenbucket.lua, write
  part1 = fmod(missing1, interval1)
  taken1 = floor((missing1 - part1) / interval1 + 0.5)
  if missing1 > 0 then
    -- limit/tokenbucket.lua, life
    local life = max(1, min(9007199254740, ceil((missing1 / refill1 + (at1 - now)) / 1000) + 1000))
    -- limit/tokenbucket.lua, write
    text1 = format('%s %d %d %d %d', epoch1, at1, taken1, part1, other1 or refill1)
    if other1 then
      text1, life = text1 .. format(' %.0f %.0f', refunded1, extra1), max(call('PTTL', KEYS[1]), life)
    elseif refunded1 > 0 then
      text1 = text1 .. format(' %.0f', refunded1)
    end
    call('SET', KEYS[1], text1, 'PX', format('%d', life))
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
-- limit/tokenbucket.lua, report
local report1 = {text1, taken1, part1, at1 - now}
-- limit/scripts/acquire.lua
local next, batch, window, ends, drips = 0, nil, 0, 0, false
-- limit/tokenbucket.lua, next
next = max(next, (((missed or 1) - most1) * interval1 + missing1) / refill1)
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
-- limit/tokenbucket.lua, read
local most1, refill1, interval1 = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local at1, missing1, refunded1, extra1, early1, epoch1, other1 = now, 0, 0, 0, 0, false, false
local KEYS = KEYS
local text1 = call('GET', KEYS[1]) or ''
local ceil = math.ceil
if text1 ~= '' then
  local match = string.match
  local word, at, taken, part, rate, rest = match(text1, '^(%w+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  local refunded, extra = match(rest or '', '^ (%d+) ?(-?%d*)$')
  if not word or #at > 18 or max(#taken, #part, #rate) > 16
      or rest ~= '' and (not refunded or max(#refunded, #extra) > 99) then
    return {3, 1, text1}
  end
  at1, missing1 = at + 0, tonumber(taken, 10) * interval1 + part
  if refunded then
    refunded1 = tonumber(refunded .. '.')
    extra1 = tonumber(extra .. '.') or 0
  end
  if rate ~= ARGV[5] or refunded and extra ~= '' then
    other1 = rate + 0
    extra1 = extra1 + max(0, now - at1) * (refill1 - other1)
  end
  if at1 < now then
    local full = at1 + ceil(missing1 / refill1)
    if backdate and full < now then
      at1, missing1 = max(full, now - backdate), 0
      early1 = (now - at1) * refill1
    else
      missing1, at1 = max(0, missing1 - (now - at1) * refill1), now
    end
  end
  epoch1 = missing1 > 0 and word
end
local fmod = math.fmod
local part1 = fmod(missing1, interval1)
local floor = math.floor
local taken1 = floor((missing1 - part1) / interval1 + 0.5)
-- limit/scripts/charge.lua
local epoch = ARGV[3]
local granted, answers, want = ARGV[1] + 0, nil, 1
-- limit/tokenbucket.lua, take
if not epoch1 then
  epoch1, refunded1, extra1, other1 = epoch, 0, 0, false
end
local min = math.min
missing1 = min(9007199254740992 * interval1, missing1 + granted * interval1)
-- limit/tokenbucket.lua, write
part1 = fmod(missing1, interval1)
taken1 = floor((missing1 - part1) / interval1 + 0.5)
if missing1 > 0 then
  -- limit/tokenbucket.lua, life
  local life = max(1, min(9007199254740, ceil((missing1 / refill1 + (at1 - now)) / 1000) + 1000))
  -- limit/tokenbucket.lua, write
  local format = string.format
  text1 = format('%s %d %d %d %d', epoch1, at1, taken1, part1, other1 or refill1)
  if other1 then
    text1, life = text1 .. format(' %.0f %.0f', refunded1, extra1), max(call('PTTL', KEYS[1]), life)
  elseif refunded1 > 0 then
    text1 = text1 .. format(' %.0f', refunded1)
  end
  call('SET', KEYS[1], text1, 'PX', format('%d', life))
else
  text1 = ''
  call('UNLINK', KEYS[1])
end
-- limit/tokenbucket.lua, report
local report1 = {text1, taken1, part1, at1 - now}
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
-- limit/tokenbucket.lua, read
local most1, refill1, interval1 = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local at1, missing1, refunded1, extra1, early1, epoch1, other1 = now, 0, 0, 0, 0, false, false
local KEYS = KEYS
local text1 = call('GET', KEYS[1]) or ''
local ceil = math.ceil
local match = string.match
if text1 ~= '' then
  local word, at, taken, part, rate, rest = match(text1, '^(%w+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  local refunded, extra = match(rest or '', '^ (%d+) ?(-?%d*)$')
  if not word or #at > 18 or max(#taken, #part, #rate) > 16
      or rest ~= '' and (not refunded or max(#refunded, #extra) > 99) then
    return {3, 1, text1}
  end
  at1, missing1 = at + 0, tonumber(taken, 10) * interval1 + part
  if refunded then
    refunded1 = tonumber(refunded .. '.')
    extra1 = tonumber(extra .. '.') or 0
  end
  if rate ~= ARGV[5] or refunded and extra ~= '' then
    other1 = rate + 0
    extra1 = extra1 + max(0, now - at1) * (refill1 - other1)
  end
  if at1 < now then
    local full = at1 + ceil(missing1 / refill1)
    if backdate and full < now then
      at1, missing1 = max(full, now - backdate), 0
      early1 = (now - at1) * refill1
    else
      missing1, at1 = max(0, missing1 - (now - at1) * refill1), now
    end
  end
  epoch1 = missing1 > 0 and word
end
local fmod = math.fmod
local part1 = fmod(missing1, interval1)
local floor = math.floor
local taken1 = floor((missing1 - part1) / interval1 + 0.5)
-- limit/scripts/release.lua
local n, age = tonumber(ARGV[1]), ARGV[2]
local receipts = {unpack(ARGV, 6 + 1)}
-- limit/tokenbucket.lua, release
do
  local receipt = receipts[1]
  local due = n * interval1
  local min = math.min
  if receipt then
    local word, at, taken, part, rest = match(receipt, '^(%w+) (%d+) (%d+) (%d+) %d+(.*)$')
    if word and word == epoch1 then
      local before, extra = match(rest, '^ (%d+) ?(-?%d*)')
      local refilled = (at1 - at) * (other1 or refill1) + extra1 - (tonumber((extra or '') .. '.') or 0)
      before = tonumber((before or '0') .. '.')
      due = min(due, max(due, tonumber(taken, 10) * interval1 + part - refunded1 + before) - refilled)
    else
      due = 0
    end
  end
  due = min(due, missing1)
  if due > 0 then
    missing1, refunded1 = missing1 - due, refunded1 + due
    -- limit/tokenbucket.lua, write
    part1 = fmod(missing1, interval1)
    taken1 = floor((missing1 - part1) / interval1 + 0.5)
    if missing1 > 0 then
      -- limit/tokenbucket.lua, life
      local life = max(1, min(9007199254740, ceil((missing1 / refill1 + (at1 - now)) / 1000) + 1000))
      -- limit/tokenbucket.lua, write
      local format = string.format
      text1 = format('%s %d %d %d %d', epoch1, at1, taken1, part1, other1 or refill1)
      if other1 then
        text1, life = text1 .. format(' %.0f %.0f', refunded1, extra1), max(call('PTTL', KEYS[1]), life)
      elseif refunded1 > 0 then
        text1 = text1 .. format(' %.0f', refunded1)
      end
      call('SET', KEYS[1], text1, 'PX', format('%d', life))
    else
      text1 = ''
      call('UNLINK', KEYS[1])
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
-- limit/scripts/peek.lua
local backdate = nil
-- limit/tokenbucket.lua, read
local most1, refill1, interval1 = ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0
local at1, missing1, refunded1, extra1, early1, epoch1, other1 = now, 0, 0, 0, 0, false, false
local KEYS = KEYS
local text1 = call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local match = string.match
  local word, at, taken, part, rate, rest = match(text1, '^(%w+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  local refunded, extra = match(rest or '', '^ (%d+) ?(-?%d*)$')
  if not word or #at > 18 or max(#taken, #part, #rate) > 16
      or rest ~= '' and (not refunded or max(#refunded, #extra) > 99) then
    return {3, 1, text1}
  end
  at1, missing1 = at + 0, tonumber(taken, 10) * interval1 + part
  if refunded then
    refunded1 = tonumber(refunded .. '.')
    extra1 = tonumber(extra .. '.') or 0
  end
  if rate ~= ARGV[3] or refunded and extra ~= '' then
    other1 = rate + 0
    extra1 = extra1 + max(0, now - at1) * (refill1 - other1)
  end
  if at1 < now then
    local ceil = math.ceil
    local full = at1 + ceil(missing1 / refill1)
    if backdate and full < now then
      at1, missing1 = max(full, now - backdate), 0
      early1 = (now - at1) * refill1
    else
      missing1, at1 = max(0, missing1 - (now - at1) * refill1), now
    end
  end
  epoch1 = missing1 > 0 and word
end
local fmod = math.fmod
local part1 = fmod(missing1, interval1)
local floor = math.floor
local taken1 = floor((missing1 - part1) / interval1 + 0.5)
-- limit/scripts/peek.lua
local answers, want = '*', 1
-- limit/tokenbucket.lua, report
local report1 = {text1, taken1, part1, at1 - now}
-- limit/tokenbucket.lua, peek
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
-- limit/tokenbucket.lua, read
local most1, refill1, interval1 = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local at1, missing1, refunded1, extra1, early1, epoch1, other1 = now, 0, 0, 0, 0, false, false
local KEYS = KEYS
local text1 = call('GET', KEYS[1]) or ''
local ceil = math.ceil
if text1 ~= '' then
  local match = string.match
  local word, at, taken, part, rate, rest = match(text1, '^(%w+) (%d+) (%d+) (%d+) (%d+)(.*)$')
  local refunded, extra = match(rest or '', '^ (%d+) ?(-?%d*)$')
  if not word or #at > 18 or max(#taken, #part, #rate) > 16
      or rest ~= '' and (not refunded or max(#refunded, #extra) > 99) then
    return {3, 1, text1}
  end
  at1, missing1 = at + 0, tonumber(taken, 10) * interval1 + part
  if refunded then
    refunded1 = tonumber(refunded .. '.')
    extra1 = tonumber(extra .. '.') or 0
  end
  if rate ~= ARGV[5] or refunded and extra ~= '' then
    other1 = rate + 0
    extra1 = extra1 + max(0, now - at1) * (refill1 - other1)
  end
  if at1 < now then
    local full = at1 + ceil(missing1 / refill1)
    if backdate and full < now then
      at1, missing1 = max(full, now - backdate), 0
      early1 = (now - at1) * refill1
    else
      missing1, at1 = max(0, missing1 - (now - at1) * refill1), now
    end
  end
  epoch1 = missing1 > 0 and word
end
local fmod = math.fmod
local part1 = fmod(missing1, interval1)
local floor = math.floor
local taken1 = floor((missing1 - part1) / interval1 + 0.5)
local free1 = most1 - taken1 - (part1 > 0 and 1 or 0) + floor(early1 / interval1)
-- limit/scripts/drain.lua
local epoch = ARGV[3]
local leave, answers, want, granted = ARGV[1] + 0, nil, 1, 0
-- limit/scripts/include/drain.lua
local min = math.min
granted = min(free1) - leave
if granted > 0 then
  local format = string.format
  local amount = format('%d', granted)
  -- limit/tokenbucket.lua, take
  if not epoch1 then
    epoch1, refunded1, extra1, other1 = epoch, 0, 0, false
  end
  missing1 = min(9007199254740992 * interval1, missing1 + granted * interval1)
  -- limit/tokenbucket.lua, write
  part1 = fmod(missing1, interval1)
  taken1 = floor((missing1 - part1) / interval1 + 0.5)
  if missing1 > 0 then
    -- limit/tokenbucket.lua, life
    local life = max(1, min(9007199254740, ceil((missing1 / refill1 + (at1 - now)) / 1000) + 1000))
    -- limit/tokenbucket.lua, write
    text1 = format('%s %d %d %d %d', epoch1, at1, taken1, part1, other1 or refill1)
    if other1 then
      text1, life = text1 .. format(' %.0f %.0f', refunded1, extra1), max(call('PTTL', KEYS[1]), life)
    elseif refunded1 > 0 then
      text1 = text1 .. format(' %.0f', refunded1)
    end
    call('SET', KEYS[1], text1, 'PX', format('%d', life))
  else
    text1 = ''
    call('UNLINK', KEYS[1])
  end
-- limit/scripts/include/drain.lua
end
-- limit/scripts/drain.lua
answers = '*'
-- limit/tokenbucket.lua, report
local report1 = {text1, taken1, part1, at1 - now}
-- limit/tokenbucket.lua, peek
if epoch1 and other1 then
  report1[5] = max(0, call('PTTL', KEYS[1])) * 1000
end
-- limit/scripts/drain.lua
return {0, '*', report1}

