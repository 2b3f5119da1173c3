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
local most1, end1, length1, renews1 = ARGV[4] + 0, nil, ARGV[5], ARGV[6] ~= ''
local count1, head1, text1 = 0, false, call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local head, finish, count = match(text1, '^(%w+ (%d+) )(%d+)$')
  if not head or #finish > 15 or #count > 16 then
    return {3, 1, text1}
  end
  if finish + 0 > millis then
    end1, count1, head1 = finish + 0, count + 0, head
  end
end
if not head1 then
  end1 = millis + length1
  if renews1 then
    end1 = end1 - millis % length1
  end
end
local free1 = most1 - count1
local free2, most2, text2, rest2 = 9007199254740992, 9007199254740992, '', call('PTTL', KEYS[2])
if rest2 ~= -2 then
  local found = call('GET', KEYS[2])
  if found ~= 'paused' or rest2 < 0 then
    return {3, 2, found}
  end
  if rest2 > 0 then
    free2 = 0
  end
end
rest2 = max(0, rest2)
local free, most, credit = min(free1, free2), min(most1, most2), 9007199254740992
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
  span = min(span, floor(length1 / 16), floor(end1 - now / 1000),
    head1 and not renews1 and call('PTTL', KEYS[1]) or length1 + 0)
  span = free2 > 0 and span or 0
  if granted == total and span > 0 then
    leased = max(0, min(tonumber(ARGV[6 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + leased
  end
end
if granted > 0 then
  count1 = min(9007199254740992, count1 + granted) -- only Charge reaches this
  text1 = (head1 or format('%s %d ', epoch, end1)) .. format('%d', count1)
  if head1 and not renews1 then
    call('SET', KEYS[1], text1, 'KEEPTTL')
  else
    call('SET', KEYS[1], text1, 'PX', length1)
  end
end
if flags ~= 'd' and flags ~= 'do' and not above and not leased then
  if granted == total then
    return {text1, text2}
  elseif granted == 0 and flags == '' then
    return -1
  end
end
local report1 = {text1, count1, end1 * 1000 - now}
local report2 = {text2, rest2 * 1000}
if leased then
  return {0, answers or '*', report1, report2, leased, span}
end
return {0, answers or '*', report1, report2}

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
local most1, end1, length1, renews1 = ARGV[4] + 0, nil, ARGV[5], ARGV[6] ~= ''
local count1, head1, text1 = 0, false, call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local head, finish, count = match(text1, '^(%w+ (%d+) )(%d+)$')
  if not head or #finish > 15 or #count > 16 then
    return {3, 1, text1}
  end
  if finish + 0 > millis then
    end1, count1, head1 = finish + 0, count + 0, head
  end
end
if not head1 then
  end1 = millis + length1
  if renews1 then
    end1 = end1 - millis % length1
  end
end
local free1 = most1 - count1
local free2, most2, text2, rest2 = 9007199254740992, 9007199254740992, '', call('PTTL', KEYS[2])
if rest2 ~= -2 then
  local found = call('GET', KEYS[2])
  if found ~= 'paused' or rest2 < 0 then
    return {3, 2, found}
  end
  if rest2 > 0 then
    free2 = 0
  end
end
rest2 = max(0, rest2)
local granted, epoch, answers, want = ARGV[2] + 0, ARGV[3], nil, 1
count1 = min(9007199254740992, count1 + granted) -- only Charge reaches this
text1 = (head1 or format('%s %d ', epoch, end1)) .. format('%d', count1)
if head1 and not renews1 then
  call('SET', KEYS[1], text1, 'KEEPTTL')
else
  call('SET', KEYS[1], text1, 'PX', length1)
end
local report1 = {text1, count1, end1 * 1000 - now}
local report2 = {text2, rest2 * 1000}
return {0, '*', report1, report2}

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
local most1, end1, length1, renews1 = ARGV[3] + 0, nil, ARGV[4], ARGV[5] ~= ''
local count1, head1, text1 = 0, false, call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local head, finish, count = match(text1, '^(%w+ (%d+) )(%d+)$')
  if not head or #finish > 15 or #count > 16 then
    return {3, 1, text1}
  end
  if finish + 0 > millis then
    end1, count1, head1 = finish + 0, count + 0, head
  end
end
if not head1 then
  end1 = millis + length1
  if renews1 then
    end1 = end1 - millis % length1
  end
end
local free1 = most1 - count1
local n, receipts = tonumber(ARGV[2]), {unpack(ARGV, 5 + 1)}
do
  local receipt = receipts[1]
  if count1 > 0 and (not receipt or match(receipt, '^%w+ ') == match(head1, '^%w+ ')) then
    if n < count1 then
      call('SET', KEYS[1], head1 .. format('%d', count1 - n), 'KEEPTTL')
    else
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
local most1, end1, length1, renews1 = ARGV[2] + 0, nil, ARGV[3], ARGV[4] ~= ''
local count1, head1, text1 = 0, false, call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local head, finish, count = match(text1, '^(%w+ (%d+) )(%d+)$')
  if not head or #finish > 15 or #count > 16 then
    return {3, 1, text1}
  end
  if finish + 0 > millis then
    end1, count1, head1 = finish + 0, count + 0, head
  end
end
if not head1 then
  end1 = millis + length1
  if renews1 then
    end1 = end1 - millis % length1
  end
end
local free1 = most1 - count1
local free2, most2, text2, rest2 = 9007199254740992, 9007199254740992, '', call('PTTL', KEYS[2])
if rest2 ~= -2 then
  local found = call('GET', KEYS[2])
  if found ~= 'paused' or rest2 < 0 then
    return {3, 2, found}
  end
  if rest2 > 0 then
    free2 = 0
  end
end
rest2 = max(0, rest2)
local answers, want = '*', 1
local report1 = {text1, count1, end1 * 1000 - now}
local report2 = {text2, rest2 * 1000}
return {0, answers, report1, report2}

---- pause
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis, backdate = floor(now / 1000), nil -- only acquire has waiters
local pause = tonumber(ARGV[2])
local free2, most2, text2, rest2 = 9007199254740992, 9007199254740992, '', call('PTTL', KEYS[2])
if rest2 ~= -2 then
  local found = call('GET', KEYS[2])
  if found ~= 'paused' or rest2 < 0 then
    return {3, 2, found}
  end
  if rest2 > 0 then
    free2 = 0
  end
end
rest2 = max(0, rest2)
if pause == 0 then
  call('UNLINK', KEYS[2])
elseif pause > rest2 then
  call('SET', KEYS[2], 'paused', 'PX', ARGV[2])
end
return 1

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
local most1, end1, length1, renews1 = ARGV[4] + 0, nil, ARGV[5], ARGV[6] ~= ''
local count1, head1, text1 = 0, false, call('GET', KEYS[1]) or ''
if text1 ~= '' then
  local head, finish, count = match(text1, '^(%w+ (%d+) )(%d+)$')
  if not head or #finish > 15 or #count > 16 then
    return {3, 1, text1}
  end
  if finish + 0 > millis then
    end1, count1, head1 = finish + 0, count + 0, head
  end
end
if not head1 then
  end1 = millis + length1
  if renews1 then
    end1 = end1 - millis % length1
  end
end
local free1 = most1 - count1
local free2, most2, text2, rest2 = 9007199254740992, 9007199254740992, '', call('PTTL', KEYS[2])
if rest2 ~= -2 then
  local found = call('GET', KEYS[2])
  if found ~= 'paused' or rest2 < 0 then
    return {3, 2, found}
  end
  if rest2 > 0 then
    free2 = 0
  end
end
rest2 = max(0, rest2)
local leave, epoch, answers, want, granted = ARGV[2] + 0, ARGV[3], nil, 1, 0
granted = min(free1) - leave
if granted > 0 then
  count1 = min(9007199254740992, count1 + granted) -- only Charge reaches this
  text1 = (head1 or format('%s %d ', epoch, end1)) .. format('%d', count1)
  if head1 and not renews1 then
    call('SET', KEYS[1], text1, 'KEEPTTL')
  else
    call('SET', KEYS[1], text1, 'PX', length1)
  end
end
answers = '*'
local report1 = {text1, count1, end1 * 1000 - now}
local report2 = {text2, rest2 * 1000}
return {0, '*', report1, report2}

