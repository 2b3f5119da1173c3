---- acquire
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis, backdate = floor(now / 1000), nil -- only acquire has waiters
backdate = tonumber(ARGV[6 + 3] or '')
local capacity1, refill1, interval1 = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local at1, missing1, refunded1, early1, epoch1 = now, 0, 0, 0, false
local text1 = call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local word, at, taken, part, rest = match(text1, '^(%w+) (%d+) (%d+) (%d+)(.*)$')
  local refunded = match(rest or '', '^ (%d+)$')
  if not word or #at > 18 or #taken > 16 or #part > 16 or rest ~= '' and (not refunded or #refunded > 99) then
    return {3, 1, text1}
  end
  at1, missing1 = at + 0, tonumber(taken, 10) * interval1 + part
  if refunded then
    refunded1 = tonumber(refunded .. '.')
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
local part1 = fmod(missing1, interval1)
local taken1 = floor((missing1 - part1) / interval1 + 0.5)
local free1, most1 = capacity1 - taken1 - (part1 > 0 and 1 or 0) + floor(early1 / interval1), capacity1
local free, most, credit = min(free1), min(most1), 9007199254740992
if backdate then
  credit = min(credit, missing1 > 0 and -1 or floor(early1 / interval1))
end
local runs, flags = ARGV[6 + 1] or '', ARGV[6 + 2] or ''
local total, epoch, granted, answers, above = ARGV[2] + 0, ARGV[3], 0, nil, false
local ordered = flags == 'do'
local want = ordered and most or 0
if total <= free and (total <= credit or runs == '' and credit >= 0) then
  granted = total
elseif runs ~= '' or total > most then
  if runs == '' then
    runs = ARGV[2] .. '*1'
  end
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
        want = math.max(want, upTo == '' and n or 1)
        closed = ordered
      end
    end
  end
  answers = table.concat(answers) .. part
end
local leased, span = nil, ARGV[6 + 5]
if span then
  leased, span = 0, tonumber(span)
  if granted == total and span > 0 then
    leased = max(0, min(tonumber(ARGV[6 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + leased
  end
end
if granted > 0 then
  if not epoch1 then
    epoch1, refunded1 = epoch, 0
  end
  missing1 = min(9007199254740992 * interval1, missing1 + granted * interval1)
  part1 = fmod(missing1, interval1)
  taken1 = floor((missing1 - part1) / interval1 + 0.5)
  if missing1 > 0 then
    text1 = format('%s %d %d %d', epoch1, at1, taken1, part1)
    if refunded1 > 0 then
      text1 = text1 .. format(' %.0f', refunded1)
    end
    local life = ceil((missing1 / refill1 + (at1 - now)) / 1000) + 1000
    call('SET', KEYS[1], text1, 'PX', format('%d', max(1, min(9007199254740, life))))
  else
    text1 = ''
    call('UNLINK', KEYS[1])
  end
end
if flags ~= 'd' and flags ~= 'do' and not above and not leased then
  if granted == total then
    return text1
  elseif granted == 0 and flags == '' then
    return -1
  end
end
local report1 = {text1, taken1, part1, at1 - now}
if leased then
  return {0, answers or '*', report1, leased, span}
end
return {0, answers or '*', report1}

---- charge
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis, backdate = floor(now / 1000), nil -- only acquire has waiters
local capacity1, refill1, interval1 = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local at1, missing1, refunded1, early1, epoch1 = now, 0, 0, 0, false
local text1 = call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local word, at, taken, part, rest = match(text1, '^(%w+) (%d+) (%d+) (%d+)(.*)$')
  local refunded = match(rest or '', '^ (%d+)$')
  if not word or #at > 18 or #taken > 16 or #part > 16 or rest ~= '' and (not refunded or #refunded > 99) then
    return {3, 1, text1}
  end
  at1, missing1 = at + 0, tonumber(taken, 10) * interval1 + part
  if refunded then
    refunded1 = tonumber(refunded .. '.')
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
local part1 = fmod(missing1, interval1)
local taken1 = floor((missing1 - part1) / interval1 + 0.5)
local free1, most1 = capacity1 - taken1 - (part1 > 0 and 1 or 0) + floor(early1 / interval1), capacity1
local granted, epoch, answers, want = ARGV[2] + 0, ARGV[3], nil, 1
if not epoch1 then
  epoch1, refunded1 = epoch, 0
end
missing1 = min(9007199254740992 * interval1, missing1 + granted * interval1)
part1 = fmod(missing1, interval1)
taken1 = floor((missing1 - part1) / interval1 + 0.5)
if missing1 > 0 then
  text1 = format('%s %d %d %d', epoch1, at1, taken1, part1)
  if refunded1 > 0 then
    text1 = text1 .. format(' %.0f', refunded1)
  end
  local life = ceil((missing1 / refill1 + (at1 - now)) / 1000) + 1000
  call('SET', KEYS[1], text1, 'PX', format('%d', max(1, min(9007199254740, life))))
else
  text1 = ''
  call('UNLINK', KEYS[1])
end
local report1 = {text1, taken1, part1, at1 - now}
return {0, '*', report1}

---- release
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis, backdate = floor(now / 1000), nil -- only acquire has waiters
local capacity1, refill1, interval1 = ARGV[3] + 0, ARGV[4] + 0, ARGV[5] + 0
local at1, missing1, refunded1, early1, epoch1 = now, 0, 0, 0, false
local text1 = call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local word, at, taken, part, rest = match(text1, '^(%w+) (%d+) (%d+) (%d+)(.*)$')
  local refunded = match(rest or '', '^ (%d+)$')
  if not word or #at > 18 or #taken > 16 or #part > 16 or rest ~= '' and (not refunded or #refunded > 99) then
    return {3, 1, text1}
  end
  at1, missing1 = at + 0, tonumber(taken, 10) * interval1 + part
  if refunded then
    refunded1 = tonumber(refunded .. '.')
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
local part1 = fmod(missing1, interval1)
local taken1 = floor((missing1 - part1) / interval1 + 0.5)
local free1, most1 = capacity1 - taken1 - (part1 > 0 and 1 or 0) + floor(early1 / interval1), capacity1
local n, receipts = tonumber(ARGV[2]), {unpack(ARGV, 5 + 1)}
do
  local receipt = receipts[1]
  local due = n * interval1
  if receipt then
    local word, at, taken, part, rest = match(receipt, '^(%w+) (%d+) (%d+) (%d+)(.*)$')
    if word and word == epoch1 then
      local refilled, before = (at1 - at) * refill1, tonumber((match(rest, '^ (%d+)') or '0') .. '.')
      due = min(due, max(due, tonumber(taken, 10) * interval1 + part - refunded1 + before) - refilled)
    else
      due = 0
    end
  end
  due = min(due, missing1)
  if due > 0 then
    missing1, refunded1 = missing1 - due, refunded1 + due
    part1 = fmod(missing1, interval1)
    taken1 = floor((missing1 - part1) / interval1 + 0.5)
    if missing1 > 0 then
      text1 = format('%s %d %d %d', epoch1, at1, taken1, part1)
      if refunded1 > 0 then
        text1 = text1 .. format(' %.0f', refunded1)
      end
      local life = ceil((missing1 / refill1 + (at1 - now)) / 1000) + 1000
      call('SET', KEYS[1], text1, 'PX', format('%d', max(1, min(9007199254740, life))))
    else
      text1 = ''
      call('UNLINK', KEYS[1])
    end
  end
end
return 1

---- peek
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis, backdate = floor(now / 1000), nil -- only acquire has waiters
local capacity1, refill1, interval1 = ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0
local at1, missing1, refunded1, early1, epoch1 = now, 0, 0, 0, false
local text1 = call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local word, at, taken, part, rest = match(text1, '^(%w+) (%d+) (%d+) (%d+)(.*)$')
  local refunded = match(rest or '', '^ (%d+)$')
  if not word or #at > 18 or #taken > 16 or #part > 16 or rest ~= '' and (not refunded or #refunded > 99) then
    return {3, 1, text1}
  end
  at1, missing1 = at + 0, tonumber(taken, 10) * interval1 + part
  if refunded then
    refunded1 = tonumber(refunded .. '.')
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
local part1 = fmod(missing1, interval1)
local taken1 = floor((missing1 - part1) / interval1 + 0.5)
local free1, most1 = capacity1 - taken1 - (part1 > 0 and 1 or 0) + floor(early1 / interval1), capacity1
local answers, want = '*', 1
local report1 = {text1, taken1, part1, at1 - now}
return {0, answers, report1}

---- drain
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis, backdate = floor(now / 1000), nil -- only acquire has waiters
local capacity1, refill1, interval1 = ARGV[4] + 0, ARGV[5] + 0, ARGV[6] + 0
local at1, missing1, refunded1, early1, epoch1 = now, 0, 0, 0, false
local text1 = call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local word, at, taken, part, rest = match(text1, '^(%w+) (%d+) (%d+) (%d+)(.*)$')
  local refunded = match(rest or '', '^ (%d+)$')
  if not word or #at > 18 or #taken > 16 or #part > 16 or rest ~= '' and (not refunded or #refunded > 99) then
    return {3, 1, text1}
  end
  at1, missing1 = at + 0, tonumber(taken, 10) * interval1 + part
  if refunded then
    refunded1 = tonumber(refunded .. '.')
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
local part1 = fmod(missing1, interval1)
local taken1 = floor((missing1 - part1) / interval1 + 0.5)
local free1, most1 = capacity1 - taken1 - (part1 > 0 and 1 or 0) + floor(early1 / interval1), capacity1
local leave, epoch, answers, want, granted = ARGV[2] + 0, ARGV[3], nil, 1, 0
granted = min(free1) - leave
if granted > 0 then
  if not epoch1 then
    epoch1, refunded1 = epoch, 0
  end
  missing1 = min(9007199254740992 * interval1, missing1 + granted * interval1)
  part1 = fmod(missing1, interval1)
  taken1 = floor((missing1 - part1) / interval1 + 0.5)
  if missing1 > 0 then
    text1 = format('%s %d %d %d', epoch1, at1, taken1, part1)
    if refunded1 > 0 then
      text1 = text1 .. format(' %.0f', refunded1)
    end
    local life = ceil((missing1 / refill1 + (at1 - now)) / 1000) + 1000
    call('SET', KEYS[1], text1, 'PX', format('%d', max(1, min(9007199254740, life))))
  else
    text1 = ''
    call('UNLINK', KEYS[1])
  end
end
answers = '*'
local report1 = {text1, taken1, part1, at1 - now}
return {0, '*', report1}

