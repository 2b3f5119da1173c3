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
backdate = tonumber(ARGV[5 + 3] or '')
local most1, at1, first1, base1, length1, sum1 = tonumber(ARGV[4]), millis, 0, 0, 0, 0
local time1, count1, total1, epoch1, text1 = 0, 0, 0, false, ''
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
local free, most, credit = min(free1), min(most1), 9007199254740992
local runs, flags = ARGV[5 + 1] or '', ARGV[5 + 2] or ''
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
local leased, span = nil, ARGV[5 + 5]
if span then
  leased, span = 0, tonumber(span)
  if granted == total and span > 0 then
    leased = max(0, min(tonumber(ARGV[5 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + leased
  end
end
if granted > 0 then
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
end
if flags ~= 'd' and flags ~= 'do' and not above and not leased then
  if granted == total then
    return text1
  elseif granted == 0 and flags == '' then
    return -1
  end
end
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
local most1, at1, first1, base1, length1, sum1 = tonumber(ARGV[4]), millis, 0, 0, 0, 0
local time1, count1, total1, epoch1, text1 = 0, 0, 0, false, ''
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
local granted, epoch, answers, want = ARGV[2] + 0, ARGV[3], nil, 1
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
local most1, at1, first1, base1, length1, sum1 = tonumber(ARGV[3]), millis, 0, 0, 0, 0
local time1, count1, total1, epoch1, text1 = 0, 0, 0, false, ''
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
  local limit = at1 - ARGV[4]
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
local n, receipts = tonumber(ARGV[2]), {unpack(ARGV, 4 + 1)}
if receipts[1] then
  local word, dated = match(receipts[1], '^(%w+) (%d+) ')
  local entries, own, back, last = {}, nil, 0, 1
  if word and word == epoch1 and dated + 0 > at1 - ARGV[4] then
    entries = call('LRANGE', KEYS[1], -256, -1)
  end
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
elseif sum1 > 0 then
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
local most1, at1, first1, base1, length1, sum1 = tonumber(ARGV[2]), millis, 0, 0, 0, 0
local time1, count1, total1, epoch1, text1 = 0, 0, 0, false, ''
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
local free1 = most1 - sum1
local answers, want = '*', 1
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
local most1, at1, first1, base1, length1, sum1 = tonumber(ARGV[4]), millis, 0, 0, 0, 0
local time1, count1, total1, epoch1, text1 = 0, 0, 0, false, ''
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
local leave, epoch, answers, want, granted = ARGV[2] + 0, ARGV[3], nil, 1, 0
granted = min(free1) - leave
if granted > 0 then
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
end
answers = '*'
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
return {0, '*', report1}

