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
local most1, at1, held1, first1, dead1, text1 = ARGV[4] + 0, millis, 0, nil, {}, ''
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
local total, free, most, credit = ARGV[2] + 0, min(free1), min(most1), 9007199254740992
local runs, flags = ARGV[6 + 1] or '', ARGV[6 + 2] or ''
local epoch, granted, answers, above, missed = ARGV[3], 0, nil, false, nil
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
        if not missed then
          missed = upTo == '' and n or 1
        end
        want = math.max(want, upTo == '' and n or 1)
        closed = ordered
      end
    end
  end
  answers = table.concat(answers) .. part
end
if total > free and first1 and #dead1 == 512 then
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
  return {1, format('%d', now)}
end
local leased, span = nil, ARGV[6 + 5]
if span and span ~= '' then
  leased, span = 0, tonumber(span)
  if granted == total and span > 0 then
    leased = max(0, min(tonumber(ARGV[6 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + leased
  end
end
if granted > 0 then
  if dead1[1] and first1 then
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
  elseif dead1[1] then
    call('UNLINK', KEYS[1])
  end
  do
    held1 = held1 + granted
    local finish, change, n = at1 + ARGV[5], {-1 - at1, 'clock', -held1, 'held'}, 0
    for permits, times in string.gmatch(runs == '' and format('%d*1', granted) or runs, '(%d+)%*(%d+)') do
      for _ = 1, times + 0 do
        n = n + 1
        local letter = answers and string.sub(answers, n, n) or 'g'
        if letter == 'p' then
          permits = match(answers, '%d+$')
        end
        if letter == 'g' or letter == 'p' then
          change[#change + 1] = finish
          change[#change + 1] = format('%s %d %s %s', ARGV[6], n - 1, permits, ARGV[5])
        end
      end
    end
    first1 = min(first1 or finish, finish)
    call('ZADD', KEYS[1], unpack(change))
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
  local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  report1[3], report1[4] = last * 1000 - now, first1 * 1000 - now
end
if leased then
  return {0, answers or '*', report1, leased, span}
end
return {0, answers or '*', report1}

---- wait
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis, backdate = floor(now / 1000), nil -- only acquire has waiters
local id, late, rest, lead = ARGV[6 + 6], ARGV[6 + 7] + 0, ARGV[6 + 8] + 0, ARGV[6 + 9] + 0
local waiters, t = KEYS[2], redis.pcall('TIME')
local first = t[1] and redis.pcall('ZRANGEBYSCORE', waiters, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 2) or {}
local rival, server, ahead, moved = first[1] ~= id and first[1] or first[3], now, nil, 0
if t[1] then
  server = t[1] * 1000000 + t[2]
end
t = floor(server / 1000)
if rival then
  local latest = call('ZSCORE', waiters, 'clock')
  moved = latest and max(0, -latest - 4e15 + server - now) or 0
  now = now + moved
  millis, ahead = floor(now / 1000), moved == 0 and 4e15 + now - server
end
backdate = tonumber(ARGV[6 + 3] or '')
if rival then -- whose callers have waited, if these have not
  backdate = max(backdate, 10000)
end
local most1, at1, held1, first1, dead1, text1 = ARGV[4] + 0, millis, 0, nil, {}, ''
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
local total, free, most, credit = ARGV[2] + 0, min(free1), min(most1), 9007199254740992
local holds = true
local since1 = t + (rival and call('ZSCORE', waiters, 'held') or 0)
holds = since1 >= 250 or since1 <= 60
local open, own, held, slow, known, unranked = max(0, min(free, credit + 1)), nil, 0, 0, nil, 0
if rival then
  known = first[1] == id and first[2] or first[3] == id and first[4] or call('ZSCORE', waiters, id)
  for _ = 1, 16 do
    local least, members = floor(first[1] == rival and first[2] or first[4]), call('ZCARD', waiters)
    local clients = max(1, floor((members - 1) / 2))
    own, unranked = max(floor(known or least), least - 4 * lead - 8), members - clients
    local share = floor(least - own + ceil((lead + open) / (clients + (known and 0 or 1))))
    if share < min(total, open) then
      local behind, wanted = call('ZRANGEBYSCORE', waiters, 0, '(' .. own, 'WITHSCORES', 'LIMIT', 0, 8), 0
      for i = 2, #behind, 2 do
        local wants = #behind == 16 and 1023 or fmod(behind[i], 1) * 1024
        wanted = wanted + (wants == 1023 and open or behind[i - 1] ~= id and wants or 0)
      end
      share = max(share, open - wanted)
    end
    if share >= min(total, open) then
      break
    end
    local due = -(call('ZSCORE', waiters, rival .. '!') or 0)
    if due >= t then
      if not holds then
        break
      end
      held, slow = min(floor(due) + 1 - t, max(5, ceil(1250 / lead))), fmod(due, 1) * 2048000
      credit = min(credit, share - 1)
      break
    end
    if type(redis.pcall('ZREM', waiters, rival, rival .. '!')) ~= 'number' then
      break
    end
    first = call('ZRANGEBYSCORE', waiters, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 2)
    rival = first[1] ~= id and first[1] or first[3]
    if not rival then
      break
    end
  end
else
  own = floor(first[2] or 0)
end
local runs, flags = ARGV[6 + 1] or '', ARGV[6 + 2] or ''
local epoch, granted, answers, above, missed = ARGV[3], 0, nil, false, nil
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
        if not missed then
          missed = upTo == '' and n or 1
        end
        want = math.max(want, upTo == '' and n or 1)
        closed = ordered
      end
    end
  end
  answers = table.concat(answers) .. part
end
if total > free and first1 and #dead1 == 512 then
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
  return {1, format('%d', now)}
end
local leased, span = nil, ARGV[6 + 5]
if span and span ~= '' then
  leased, span = 0, tonumber(span)
  if granted == total and span > 0 then
    leased = max(0, min(tonumber(ARGV[6 + 4]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + leased
  end
end
if granted > 0 then
  if dead1[1] and first1 then
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
  elseif dead1[1] then
    call('UNLINK', KEYS[1])
  end
  do
    held1 = held1 + granted
    local finish, change, n = at1 + ARGV[5], {-1 - at1, 'clock', -held1, 'held'}, 0
    for permits, times in string.gmatch(runs == '' and format('%d*1', granted) or runs, '(%d+)%*(%d+)') do
      for _ = 1, times + 0 do
        n = n + 1
        local letter = answers and string.sub(answers, n, n) or 'g'
        if letter == 'p' then
          permits = match(answers, '%d+$')
        end
        if letter == 'g' or letter == 'p' then
          change[#change + 1] = finish
          change[#change + 1] = format('%s %d %s %s', ARGV[6], n - 1, permits, ARGV[5])
        end
      end
    end
    first1 = min(first1 or finish, finish)
    call('ZADD', KEYS[1], unpack(change))
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
  local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  report1[3], report1[4] = last * 1000 - now, first1 * 1000 - now
end
local next = 0
if (missed or 1) > most1 - held1 then
  report1[4] = rival and first[1] == id and granted == 0 and 20000 or 100000
  next = max(next, report1[4])
end
if held > 0 and since1 >= 250 then
  redis.pcall('ZADD', waiters, -t, 'held')
end
own = min(8796093022207, own + granted)
local due, wants, lag = t, min(1023, total + rest - granted), 0
if granted < total and open > granted and held > 0 then
  due = t + held + late
else
  held = 0
  if wants > 0 then
    if rival and known and granted == 0 then
      lag = (tonumber(redis.pcall('ZRANK', waiters, id)) or 0) - unranked
    elseif rival then
      lag = (tonumber(redis.pcall('ZCOUNT', waiters, 0, '(' .. own)) or 0) - (known and granted > 0 and 1 or 0)
    end
    lag = max(0, min(100, lag * min(10, 250 / lead)))
    due = t + min(5000, max(0, ceil(next / 1000))) + ceil(lag) + late
  end
end
due = due + late / 2048
if ahead then
  redis.pcall('ZADD', waiters, own + wants / 1024, id, -due, id .. '!', -ahead, 'clock')
else
  redis.pcall('ZADD', waiters, own + wants / 1024, id, -due, id .. '!')
end
redis.pcall('PEXPIRE', waiters, 8000)
if not leased then
  return {0, answers or '*', report1, rival and 1 or 0, held * 1000, slow, lag * 1000, moved}
end
do
  return {0, answers or '*', report1, leased, span, rival and 1 or 0, held * 1000, slow, lag * 1000, moved}
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
local most1, at1, held1, first1, dead1, text1 = ARGV[4] + 0, millis, 0, nil, {}, ''
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
local granted, epoch, answers, want = ARGV[2] + 0, ARGV[3], nil, 1
local report1 = {text1, held1, 0, 0}
if held1 > 0 then
  local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  report1[3], report1[4] = last * 1000 - now, first1 * 1000 - now
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
local n, receipts = tonumber(ARGV[2]), {unpack(ARGV, 5 + 1)}
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
local most1, at1, held1, first1, dead1, text1 = ARGV[2] + 0, millis, 0, nil, {}, ''
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
local answers, want = '*', 1
local report1 = {text1, held1, 0, 0}
if held1 > 0 then
  local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  report1[3], report1[4] = last * 1000 - now, first1 * 1000 - now
end
return {0, answers, report1}

---- return
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis, backdate = floor(now / 1000), nil -- only acquire has waiters
local places = {unpack(ARGV, 4 + 1)}
local most1, at1, held1, first1, dead1, text1 = ARGV[2] + 0, millis, 0, nil, {}, ''
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
for i = 1, #places do
  local finish = call('ZSCORE', KEYS[1], places[i])
  if finish and finish + 0 > at1 then
    held1 = held1 - match(places[i], '^%w+ %d+ (%d+) %d+$')
    dead1[#dead1 + 1] = places[i]
    dead1[#dead1 + 1] = finish
  end
end
if dead1[1] and held1 > 0 then
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
elseif dead1[1] then
  call('UNLINK', KEYS[1])
end
return 1

---- renew
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis, backdate = floor(now / 1000), nil -- only acquire has waiters
local places = {unpack(ARGV, 4 + 1)}
local most1, at1, held1, first1, dead1, text1 = ARGV[2] + 0, millis, 0, nil, {}, ''
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
local ended = {0}
do
  local finish, change = at1 + ARGV[3], {-1 - at1, 'clock'}
  for i = 1, #places do
    local before = call('ZSCORE', KEYS[1], places[i])
    if before and before + 0 > at1 then
      change[#change + 1] = max(before, finish)
      change[#change + 1] = places[i]
    else
      ended[#ended + 1] = i
    end
  end
  if change[3] then
    call('ZADD', KEYS[1], unpack(change))
    call('PEXPIRE', KEYS[1], format('%d', max(call('PTTL', KEYS[1]), ARGV[3])))
  end
end
return ended

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
local most1, at1, held1, first1, dead1, text1 = ARGV[4] + 0, millis, 0, nil, {}, ''
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
local leave, epoch, answers, want, granted = ARGV[2] + 0, ARGV[3], nil, 1, 0
answers = '*'
local report1 = {text1, held1, 0, 0}
if held1 > 0 then
  local last = call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2]
  report1[3], report1[4] = last * 1000 - now, first1 * 1000 - now
end
return {0, '*', report1}

