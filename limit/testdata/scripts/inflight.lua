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
local most1, clock1, held1, first1, dead1, rest1, text1 = ARGV[4] + 0, millis * 1000, 0, nil, {}, nil, ''
local at1, dated1 = clock1 + 999, clock1
do
  local found = call('ZRANGE', KEYS[1], 0, 2, 'WITHSCORES')
  if found[1] then
    local score = {[found[1]] = found[2], [found[3] or ''] = found[4]}
    local latest = score.clock
    if not latest or not score.held or max(latest, score.held) > -1 then
      return {3, 1, found[1]}
    end
    held1, dated1, clock1 = -score.held, max(clock1, -latest), max(clock1, -1 - latest)
    at1, first1 = clock1 - clock1 % 1000 + 999, tonumber(found[6] or '')
    if first1 and first1 <= at1 then
      dead1 = call('ZRANGEBYSCORE', KEYS[1], 0, format('%d', at1), 'WITHSCORES', 'LIMIT', 0, 256)
      for i = 1, #dead1, 2 do
        local count = match(dead1[i], '^%w+ %d+ (%d+)$')
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
if total > free and first1 and #dead1 == 512 then
  do
    local change, gone = {-1 - clock1, 'clock', -held1, 'held', unpack(rest1 or {})}, {}
    for i = 1, #dead1, 2 do
      change[#change + 1] = 0
      change[#change + 1] = dead1[i]
      gone[#gone + 1] = dead1[i]
    end
    call('ZADD', KEYS[1], unpack(change))
    call('ZREM', KEYS[1], unpack(gone))
  end
  return {1, format('%d', now)}
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
  if dead1[1] and first1 then
    do
      local change, gone = {-1 - clock1, 'clock', -held1, 'held', unpack(rest1 or {})}, {}
      for i = 1, #dead1, 2 do
        change[#change + 1] = 0
        change[#change + 1] = dead1[i]
        gone[#gone + 1] = dead1[i]
      end
      call('ZADD', KEYS[1], unpack(change))
      call('ZREM', KEYS[1], unpack(gone))
    end
  elseif dead1[1] then
    call('UNLINK', KEYS[1])
  end
  do
    local n = min(granted, 9007199254740992 - held1) -- only Charge reaches this
    local finish = dated1 + ARGV[5] * 1000
    held1, first1, text1 = held1 + n, min(first1 or finish, finish), format('%s %d %d', epoch, finish, n)
    call('ZADD', KEYS[1], -1 - dated1, 'clock', -held1, 'held', finish, text1)
    call('PEXPIRE', KEYS[1], format('%d', max(call('PTTL', KEYS[1]), ARGV[5])))
  end
end
if flags ~= 'd' and flags ~= 'do' and not above and not leased then
  if granted == total then
    return text1
  elseif granted == 0 and flags == '' then
    return -1
  end
end
local report1 = {text1, held1, 0, 0}
if held1 > 0 then
  local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2] + 0
  report1[3], report1[4] = last - last % 1000 - now, first1 - first1 % 1000 - now
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
local most1, clock1, held1, first1, dead1, rest1, text1 = ARGV[4] + 0, millis * 1000, 0, nil, {}, nil, ''
local at1, dated1 = clock1 + 999, clock1
do
  local found = call('ZRANGE', KEYS[1], 0, 2, 'WITHSCORES')
  if found[1] then
    local score = {[found[1]] = found[2], [found[3] or ''] = found[4]}
    local latest = score.clock
    if not latest or not score.held or max(latest, score.held) > -1 then
      return {3, 1, found[1]}
    end
    held1, dated1, clock1 = -score.held, max(clock1, -latest), max(clock1, -1 - latest)
    at1, first1 = clock1 - clock1 % 1000 + 999, tonumber(found[6] or '')
    if first1 and first1 <= at1 then
      dead1 = call('ZRANGEBYSCORE', KEYS[1], 0, format('%d', at1), 'WITHSCORES', 'LIMIT', 0, 256)
      for i = 1, #dead1, 2 do
        local count = match(dead1[i], '^%w+ %d+ (%d+)$')
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
local granted, epoch, answers, want = ARGV[2] + 0, ARGV[3], nil, 1
if dead1[1] and first1 then
  do
    local change, gone = {-1 - clock1, 'clock', -held1, 'held', unpack(rest1 or {})}, {}
    for i = 1, #dead1, 2 do
      change[#change + 1] = 0
      change[#change + 1] = dead1[i]
      gone[#gone + 1] = dead1[i]
    end
    call('ZADD', KEYS[1], unpack(change))
    call('ZREM', KEYS[1], unpack(gone))
  end
elseif dead1[1] then
  call('UNLINK', KEYS[1])
end
do
  local n = min(granted, 9007199254740992 - held1) -- only Charge reaches this
  local finish = dated1 + ARGV[5] * 1000
  held1, first1, text1 = held1 + n, min(first1 or finish, finish), format('%s %d %d', epoch, finish, n)
  call('ZADD', KEYS[1], -1 - dated1, 'clock', -held1, 'held', finish, text1)
  call('PEXPIRE', KEYS[1], format('%d', max(call('PTTL', KEYS[1]), ARGV[5])))
end
local report1 = {text1, held1, 0, 0}
if held1 > 0 then
  local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2] + 0
  report1[3], report1[4] = last - last % 1000 - now, first1 - first1 % 1000 - now
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
local most1, clock1, held1, first1, dead1, rest1, text1 = ARGV[3] + 0, millis * 1000, 0, nil, {}, nil, ''
local at1, dated1 = clock1 + 999, clock1
do
  local found = call('ZRANGE', KEYS[1], 0, 2, 'WITHSCORES')
  if found[1] then
    local score = {[found[1]] = found[2], [found[3] or ''] = found[4]}
    local latest = score.clock
    if not latest or not score.held or max(latest, score.held) > -1 then
      return {3, 1, found[1]}
    end
    held1, dated1, clock1 = -score.held, max(clock1, -latest), max(clock1, -1 - latest)
    at1, first1 = clock1 - clock1 % 1000 + 999, tonumber(found[6] or '')
    if first1 and first1 <= at1 then
      dead1 = call('ZRANGEBYSCORE', KEYS[1], 0, format('%d', at1), 'WITHSCORES', 'LIMIT', 0, 256)
      for i = 1, #dead1, 2 do
        local count = match(dead1[i], '^%w+ %d+ (%d+)$')
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
local n, receipts = tonumber(ARGV[2]), {unpack(ARGV, 4 + 1)}
do
  local receipt, due, found, own = receipts[1], n, {}, nil
  if receipt then
    local head, finish = match(receipt, '^(%w+ (%d+) )%d+$')
    if first1 and finish and finish + 0 > at1 then
      own, found = head, call('ZRANGEBYSCORE', KEYS[1], finish, finish, 'WITHSCORES', 'LIMIT', 0, 256)
    end
  elseif first1 then
    found = call('ZRANGEBYSCORE', KEYS[1], format('(%d', at1), '+inf', 'WITHSCORES', 'LIMIT', 0, min(n, 2048))
  end
  for i = 1, #found, 2 do
    local head, count = match(found[i], '^(%w+ %d+ )(%d+)$')
    if not head then
      return {3, 1, found[i]}
    elseif due > 0 and (not own or head == own) then
      local back = min(due, count)
      due, held1 = due - back, held1 - back
      dead1[#dead1 + 1] = found[i]
      dead1[#dead1 + 1] = found[i + 1]
      if back < count + 0 then
        rest1 = {found[i + 1], head .. format('%d', count - back)}
      end
    end
  end
  if due < n and held1 > 0 then
    do
      local change, gone = {-1 - clock1, 'clock', -held1, 'held', unpack(rest1 or {})}, {}
      for i = 1, #dead1, 2 do
        change[#change + 1] = 0
        change[#change + 1] = dead1[i]
        gone[#gone + 1] = dead1[i]
      end
      call('ZADD', KEYS[1], unpack(change))
      call('ZREM', KEYS[1], unpack(gone))
    end
  elseif due < n then
    call('UNLINK', KEYS[1])
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
local most1, clock1, held1, first1, dead1, rest1, text1 = ARGV[2] + 0, millis * 1000, 0, nil, {}, nil, ''
local at1, dated1 = clock1 + 999, clock1
do
  local found = call('ZRANGE', KEYS[1], 0, 2, 'WITHSCORES')
  if found[1] then
    local score = {[found[1]] = found[2], [found[3] or ''] = found[4]}
    local latest = score.clock
    if not latest or not score.held or max(latest, score.held) > -1 then
      return {3, 1, found[1]}
    end
    held1, dated1, clock1 = -score.held, max(clock1, -latest), max(clock1, -1 - latest)
    at1, first1 = clock1 - clock1 % 1000 + 999, tonumber(found[6] or '')
    if first1 and first1 <= at1 then
      dead1 = call('ZRANGEBYSCORE', KEYS[1], 0, format('%d', at1), 'WITHSCORES', 'LIMIT', 0, 256)
      for i = 1, #dead1, 2 do
        local count = match(dead1[i], '^%w+ %d+ (%d+)$')
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
local answers, want = '*', 1
local report1 = {text1, held1, 0, 0}
if held1 > 0 then
  local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2] + 0
  report1[3], report1[4] = last - last % 1000 - now, first1 - first1 % 1000 - now
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
local most1, clock1, held1, first1, dead1, rest1, text1 = ARGV[4] + 0, millis * 1000, 0, nil, {}, nil, ''
local at1, dated1 = clock1 + 999, clock1
do
  local found = call('ZRANGE', KEYS[1], 0, 2, 'WITHSCORES')
  if found[1] then
    local score = {[found[1]] = found[2], [found[3] or ''] = found[4]}
    local latest = score.clock
    if not latest or not score.held or max(latest, score.held) > -1 then
      return {3, 1, found[1]}
    end
    held1, dated1, clock1 = -score.held, max(clock1, -latest), max(clock1, -1 - latest)
    at1, first1 = clock1 - clock1 % 1000 + 999, tonumber(found[6] or '')
    if first1 and first1 <= at1 then
      dead1 = call('ZRANGEBYSCORE', KEYS[1], 0, format('%d', at1), 'WITHSCORES', 'LIMIT', 0, 256)
      for i = 1, #dead1, 2 do
        local count = match(dead1[i], '^%w+ %d+ (%d+)$')
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
local leave, epoch, answers, want, granted = ARGV[2] + 0, ARGV[3], nil, 1, 0
answers = '*'
local report1 = {text1, held1, 0, 0}
if held1 > 0 then
  local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2] + 0
  report1[3], report1[4] = last - last % 1000 - now, first1 - first1 % 1000 - now
end
return {0, '*', report1}

