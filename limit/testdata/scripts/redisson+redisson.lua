---- acquire
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis = floor(now / 1000)
local function redisson(KEYS, ARGV)
  local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
  local call, find, match, page = redis.call, string.find, string.match, 256
  local DONE, AGAIN, NO_RATE, CORRUPT, LEASED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
  local hint, ended
  local config = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
  local rate, interval, rateType, keepAlive = config[1], config[2], config[3], config[4] or '0'
  if not (rate and interval and rateType) then
    return {NO_RATE}
  end
  local valueAt, permitsAt = 2, 3
  if rateType == '1' then
    if not KEYS[4] then
      return {NEEDS_KEYS}
    end
    valueAt, permitsAt = 4, 5
  elseif rateType ~= '0' then
    return {CORRUPT, 1, 'type', rateType}
  end
  local valueKey, permitsKey = KEYS[valueAt], KEYS[permitsAt]
  local hinted = hint and hint ~= '' and hint == rate .. ' ' .. interval
  if not (hinted or #rate < 16 and match(rate, '^%d+$') and match(interval, '^%d+$'))
      or not (keepAlive == '0' or #keepAlive < 16 and match(keepAlive, '^[1-9]%d*$')) then
    if not find(rate, '^%d+$') or (rate + 0 >= 9007199254740992 and rate ~= '9007199254740992') then
      return {CORRUPT, 1, 'rate', rate}
    end
    if not find(interval, '^%d+$') then
      return {CORRUPT, 1, 'interval', interval}
    end
    if keepAlive ~= '0' and not find(keepAlive, '^[1-9]%d*$') or #keepAlive > 15 then
      return {CORRUPT, 1, 'keepAliveTime', keepAlive}
    end
  end
  rate = rate + 0
  local now = ARGV[1]
  if now == '' then
    local time = call('TIME')
    now = time[1] .. string.format('%03d', math.floor(time[2] / 1000))
  end
  if not hinted or not ended or ended == '' then
    ended = now - interval
  end
  local stored = call('GET', valueKey)
  if stored and stored ~= '0' and not (#stored < 18 and match(stored, '^%-?[1-9]%d*$')) then
    return {CORRUPT, valueAt, '', stored}
  end
  local value = stored and stored + 0
  local ttl = keepAlive == '0' and call('PTTL', KEYS[1])
  local expired, setTTL = call('ZCOUNT', permitsKey, '-inf', ended), call('PTTL', permitsKey)
  local spent = nil
  local size = setTTL == -2 and 0 or expired > 0 and call('ZCARD', permitsKey) or nil
  local dirty, more, wipe, drop = not stored or setTTL ~= -1 and ttl == -1, false, false, 0
  if expired == size then
    wipe = expired > 0
    if value ~= rate then
      value, dirty = rate, true
    end
  else
    if expired > 0 then
      more, drop = expired > page, math.min(expired, page)
      local returned, sum = call('ZRANGE', permitsKey, '0', drop - 1), 0
      for i = 1, #returned do
        local a, b, c, d = string.byte(returned[i], -4, -1)
        if not d then
          return {CORRUPT, permitsAt, 'member', returned[i]}
        end
        sum = sum + a + b * 256 + c * 65536 + d * 16777216
      end
      dirty = true
      if value then
        value = value + sum
      end
    end
    if not value then
      if more then
        call('ZREMRANGEBYRANK', permitsKey, '0', drop - 1)
        return {AGAIN, ''}
      end
      local function count(member)
        local a, b, c, d = string.byte(member, -4, -1)
        return d and a + b * 256 + c * 65536 + d * 16777216
      end
      local inside = (size or call('ZCARD', permitsKey)) - expired
      local newest = call('ZRANGE', permitsKey, '-1', '-1')[1]
      local skip, sum, mark = string.match(ARGV[6] or '', '^(%d+) (%d+) (.*)$')
      if mark == newest and tonumber(skip) <= inside then
        skip, sum = tonumber(skip), tonumber(sum)
      else
        skip, sum = 0, 0
      end
      local stop = math.min(skip + page, inside)
      local members = stop > skip and call('ZREVRANGE', permitsKey, skip, stop - 1) or {}
      for i = 1, #members do
        local n = count(members[i])
        if not n then
          return {CORRUPT, permitsAt, 'member', members[i]}
        end
        sum = sum + n
      end
      if stop < inside then
        return {AGAIN, string.format('%d %d ', stop, sum) .. newest}
      end
      value = rate - sum
    end
  end
  local removed, added, score
  if value > rate then
    value, dirty = rate, true
  end
  local limiter = {free = value, most = rate, more = more}
  function limiter.settle(granted)
    local total, reply, grantedAt = -1, false, now
    if granted > 0 then
      value, spent = value - granted, string.format('%d', granted)
    end
    if dirty then
      call('SET', valueKey, string.format('%d', value))
    elseif spent then
      call('DECRBY', valueKey, spent)
    end
    local failed
    if wipe then
      failed = redis.pcall('UNLINK', permitsKey)
    elseif drop > 0 then
      failed = redis.pcall('ZREMRANGEBYRANK', permitsKey, '0', drop - 1)
    end
    if granted > 0 and (not failed or type(failed) ~= 'table') then
      local member = ARGV[2]
      if granted ~= total then
        local function resized(member, n)
          return string.sub(member, 1, -5) .. string.char(n % 256, math.floor(n / 256) % 256,
            math.floor(n / 65536) % 256, math.floor(n / 16777216))
        end
        member = resized(member, granted)
      end
      failed = redis.pcall('ZADD', permitsKey, grantedAt, member)
    end
    if failed and failed ~= 1 and type(failed) == 'table' then
      call('SET', valueKey, '0', 'PX', '1')
      return failed
    end
    local stateTTL
    if keepAlive ~= '0' then
      call('PEXPIRE', KEYS[1], keepAlive)
      stateTTL = keepAlive + 1
    elseif ttl >= 0 and ttl < 1e15 then
      stateTTL = ttl + 1
    end
    if stateTTL then
      if valueAt == 4 then
        stateTTL = stateTTL + math.min(interval, 1e15) + 86400000
      end
      call('PEXPIRE', valueKey, stateTTL)
      call('PEXPIRE', permitsKey, stateTTL)
    elseif setTTL >= 0 then
      call('PERSIST', permitsKey)
    end
    return reply
  end
  function limiter.report(denied)
    local newest = call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2]
    local reset = newest and math.min(math.max(0, tonumber(newest) + interval - now), 9007199254740992) or 0
    local report = {now, rate, math.min(interval, 9007199254740992), value, reset, keepAlive + 0}
    if denied then
      local reply, need = report, rate + 1 - value
      local function count(member)
        local a, b, c, d = string.byte(member, -4, -1)
        return d and a + b * 256 + c * 65536 + d * 16777216
      end
      local last, lastLeased, nowNumber = nil, nil, now + 0
      local leases = call('ZRANGEBYSCORE', permitsKey, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', '0', page)
      local oldest = call('ZRANGE', permitsKey, '0', need > 1 and page - 1 or '0', 'WITHSCORES')
      if need == 1 and string.sub(oldest[1] or '', -4) == '\0\0\0\0' then
        oldest = call('ZRANGE', permitsKey, '0', page - 1, 'WITHSCORES')
      end
      local at, leaseAt = 1, 1
      while need > 0 do
        while oldest[at] and tonumber(oldest[at + 1]) > nowNumber and string.sub(oldest[at], 2, 5) == 'LEAS' do
          at = at + 2
        end
        while leases[leaseAt] and string.sub(leases[leaseAt], 2, 5) ~= 'LEAS' do
          leaseAt = leaseAt + 2
        end
        local wait, lease = oldest[at] and tonumber(oldest[at + 1]), leases[leaseAt] and tonumber(leases[leaseAt + 1])
        wait = wait and wait + interval - now
        lease = lease and lease - now + math.min(50, interval)
        local n, leased
        if lease and (not wait or lease < wait) then
          n, wait, leaseAt, leased = count(leases[leaseAt]), lease, leaseAt + 2, true
        elseif wait then
          n, at = count(oldest[at]), at + 2
        else
          break
        end
        n, wait = n or 0, math.min(math.max(0, wait), 9007199254740992)
        need = need - n
        n = leased and -n or n
        if wait == last and leased == lastLeased then
          reply[#reply] = reply[#reply] + n
        else
          reply[#reply + 1], reply[#reply + 2], last, lastLeased = wait, n, wait, leased
        end
      end
    end
    return report
  end
  return limiter
end
local text1 = format('%d', millis)
local limiter1 = redisson({KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]},
  {text1, ARGV[4], nil, nil, nil, ARGV[5]})
if limiter1[1] == 1 then
  return {1, format('%d', now), 1, limiter1[2]}
elseif limiter1[1] then
  table.insert(limiter1, 2, 1)
  return limiter1
end
local free1, most1 = limiter1.free, limiter1.most
local text2 = format('%d', millis)
local limiter2 = redisson({KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]},
  {text2, ARGV[6], nil, nil, nil, ARGV[7]})
if limiter2[1] == 1 then
  return {1, format('%d', now), 2, limiter2[2]}
elseif limiter2[1] then
  table.insert(limiter2, 2, 2)
  return limiter2
end
local free2, most2 = limiter2.free, limiter2.most
local free, most, credit = min(free1, free2), min(most1, most2), 9007199254740992
local runs, flags = ARGV[7 + 1] or '', ARGV[7 + 2] or ''
local total, epoch, granted, answers, above = ARGV[2] + 0, ARGV[3], 0, nil, false
local want = flags == 'do' and most or 0
if total <= free and (total <= credit or runs == '' and credit >= 0) then
  granted = total
elseif runs ~= '' or total > most then
  answers = {}
  local closed, ordered, part = false, flags == 'do', ''
  if runs == '' then
    runs = ARGV[2] .. '*1'
  end
  for upTo, text, times in string.gmatch(runs, '(~?)(%d+)%*(%d+)') do
    local n, got = tonumber(text), 0
    times = tonumber(times)
    if n > most and upTo == '' then
      answers[#answers + 1] = string.rep('x', times)
      above = true
    else
      if not closed and n <= free - granted and granted <= credit then
        got = min(times, floor((free - granted) / n), floor((credit - granted) / n) + 1)
        granted = granted + got * n
        answers[#answers + 1] = string.rep('g', got)
      end
      local rest = free - granted
      if upTo ~= '' and got < times and rest >= 1 and rest < n and granted <= credit then
        answers[#answers + 1], part, got, granted = 'p', format(' %d', rest), got + 1, free
      end
      if got < times then
        answers[#answers + 1] = string.rep('n', times - got)
        want = max(want, upTo == '' and n or 1)
        closed = ordered
      end
    end
  end
  answers = table.concat(answers) .. part
end
if total > free and limiter1.more then
  return limiter1.settle(0) or {1, format('%d', now)}
end
if total > free and limiter2.more then
  return limiter2.settle(0) or {1, format('%d', now)}
end
local leased, span = nil, ARGV[7 + 4]
if span then
  leased, span = 0, tonumber(span)
  if granted == total and span > 0 then
    leased = max(0, min(tonumber(ARGV[7 + 3]), floor((free - granted) / 2), free - granted - ceil(most / 8)))
    granted = granted + leased
  end
end
do
  local failed = (not answers or match(answers, '[gnp]')) and limiter1.settle(granted)
  if failed then
    return failed
  end
end
do
  local failed = (not answers or match(answers, '[gnp]')) and limiter2.settle(granted)
  if failed then
    return failed
  end
end
if granted > 0 then
end
if flags ~= 'd' and flags ~= 'do' and not above and not leased then
  if granted == total then
    return {text1, text2}
  elseif granted == 0 and flags == '' then
    return -1
  end
end
local report1 = limiter1.report(answers)
local report2 = limiter2.report(answers)
if leased then
  return {0, answers or '*', report1, report2, leased, span}
end
return {0, answers or '*', report1, report2}

---- release
local call, floor, ceil, max, min, fmod = redis.call, math.floor, math.ceil, math.max, math.min, math.fmod
local match, format, tonumber = string.match, string.format, tonumber
local KEYS, ARGV, now = KEYS, ARGV, ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
now = max(0, now)
local millis = floor(now / 1000)
local n, receipts = tonumber(ARGV[2]), {unpack(ARGV, 6 + 1)}
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
local millis = floor(now / 1000)
local function redisson(KEYS, ARGV)
  local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
  local call, find, match, page = redis.call, string.find, string.match, 256
  local DONE, AGAIN, NO_RATE, CORRUPT, LEASED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
  local hint, ended
  local config = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
  local rate, interval, rateType, keepAlive = config[1], config[2], config[3], config[4] or '0'
  if not (rate and interval and rateType) then
    return {NO_RATE}
  end
  local valueAt, permitsAt = 2, 3
  if rateType == '1' then
    if not KEYS[4] then
      return {NEEDS_KEYS}
    end
    valueAt, permitsAt = 4, 5
  elseif rateType ~= '0' then
    return {CORRUPT, 1, 'type', rateType}
  end
  local valueKey, permitsKey = KEYS[valueAt], KEYS[permitsAt]
  local hinted = hint and hint ~= '' and hint == rate .. ' ' .. interval
  if not (hinted or #rate < 16 and match(rate, '^%d+$') and match(interval, '^%d+$'))
      or not (keepAlive == '0' or #keepAlive < 16 and match(keepAlive, '^[1-9]%d*$')) then
    if not find(rate, '^%d+$') or (rate + 0 >= 9007199254740992 and rate ~= '9007199254740992') then
      return {CORRUPT, 1, 'rate', rate}
    end
    if not find(interval, '^%d+$') then
      return {CORRUPT, 1, 'interval', interval}
    end
    if keepAlive ~= '0' and not find(keepAlive, '^[1-9]%d*$') or #keepAlive > 15 then
      return {CORRUPT, 1, 'keepAliveTime', keepAlive}
    end
  end
  rate = rate + 0
  local now = ARGV[1]
  if now == '' then
    local time = call('TIME')
    now = time[1] .. string.format('%03d', math.floor(time[2] / 1000))
  end
  if not hinted or not ended or ended == '' then
    ended = now - interval
  end
  local stored = call('GET', valueKey)
  if stored and stored ~= '0' and not (#stored < 18 and match(stored, '^%-?[1-9]%d*$')) then
    return {CORRUPT, valueAt, '', stored}
  end
  local value = stored and stored + 0
  local ttl = keepAlive == '0' and call('PTTL', KEYS[1])
  local expired, setTTL = call('ZCOUNT', permitsKey, '-inf', ended), call('PTTL', permitsKey)
  local spent = nil
  local size = setTTL == -2 and 0 or expired > 0 and call('ZCARD', permitsKey) or nil
  local dirty, more, wipe, drop = not stored or setTTL ~= -1 and ttl == -1, false, false, 0
  if expired == size then
    wipe = expired > 0
    if value ~= rate then
      value, dirty = rate, true
    end
  else
    if expired > 0 then
      more, drop = expired > page, math.min(expired, page)
      local returned, sum = call('ZRANGE', permitsKey, '0', drop - 1), 0
      for i = 1, #returned do
        local a, b, c, d = string.byte(returned[i], -4, -1)
        if not d then
          return {CORRUPT, permitsAt, 'member', returned[i]}
        end
        sum = sum + a + b * 256 + c * 65536 + d * 16777216
      end
      dirty = true
      if value then
        value = value + sum
      end
    end
    if not value then
      if more then
        call('ZREMRANGEBYRANK', permitsKey, '0', drop - 1)
        return {AGAIN, ''}
      end
      local function count(member)
        local a, b, c, d = string.byte(member, -4, -1)
        return d and a + b * 256 + c * 65536 + d * 16777216
      end
      local inside = (size or call('ZCARD', permitsKey)) - expired
      local newest = call('ZRANGE', permitsKey, '-1', '-1')[1]
      local skip, sum, mark = string.match(ARGV[6] or '', '^(%d+) (%d+) (.*)$')
      if mark == newest and tonumber(skip) <= inside then
        skip, sum = tonumber(skip), tonumber(sum)
      else
        skip, sum = 0, 0
      end
      local stop = math.min(skip + page, inside)
      local members = stop > skip and call('ZREVRANGE', permitsKey, skip, stop - 1) or {}
      for i = 1, #members do
        local n = count(members[i])
        if not n then
          return {CORRUPT, permitsAt, 'member', members[i]}
        end
        sum = sum + n
      end
      if stop < inside then
        return {AGAIN, string.format('%d %d ', stop, sum) .. newest}
      end
      value = rate - sum
    end
  end
  local removed, added, score
  if value > rate then
    value, dirty = rate, true
  end
  local limiter = {free = value, most = rate, more = more}
  function limiter.settle(granted)
    local total, reply, grantedAt = -1, false, now
    if granted > 0 then
      value, spent = value - granted, string.format('%d', granted)
    end
    if dirty then
      call('SET', valueKey, string.format('%d', value))
    elseif spent then
      call('DECRBY', valueKey, spent)
    end
    local failed
    if wipe then
      failed = redis.pcall('UNLINK', permitsKey)
    elseif drop > 0 then
      failed = redis.pcall('ZREMRANGEBYRANK', permitsKey, '0', drop - 1)
    end
    if granted > 0 and (not failed or type(failed) ~= 'table') then
      local member = ARGV[2]
      if granted ~= total then
        local function resized(member, n)
          return string.sub(member, 1, -5) .. string.char(n % 256, math.floor(n / 256) % 256,
            math.floor(n / 65536) % 256, math.floor(n / 16777216))
        end
        member = resized(member, granted)
      end
      failed = redis.pcall('ZADD', permitsKey, grantedAt, member)
    end
    if failed and failed ~= 1 and type(failed) == 'table' then
      call('SET', valueKey, '0', 'PX', '1')
      return failed
    end
    local stateTTL
    if keepAlive ~= '0' then
      call('PEXPIRE', KEYS[1], keepAlive)
      stateTTL = keepAlive + 1
    elseif ttl >= 0 and ttl < 1e15 then
      stateTTL = ttl + 1
    end
    if stateTTL then
      if valueAt == 4 then
        stateTTL = stateTTL + math.min(interval, 1e15) + 86400000
      end
      call('PEXPIRE', valueKey, stateTTL)
      call('PEXPIRE', permitsKey, stateTTL)
    elseif setTTL >= 0 then
      call('PERSIST', permitsKey)
    end
    return reply
  end
  function limiter.report(denied)
    local newest = call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2]
    local reset = newest and math.min(math.max(0, tonumber(newest) + interval - now), 9007199254740992) or 0
    local report = {now, rate, math.min(interval, 9007199254740992), value, reset, keepAlive + 0}
    if denied then
      local reply, need = report, rate + 1 - value
      local function count(member)
        local a, b, c, d = string.byte(member, -4, -1)
        return d and a + b * 256 + c * 65536 + d * 16777216
      end
      local last, lastLeased, nowNumber = nil, nil, now + 0
      local leases = call('ZRANGEBYSCORE', permitsKey, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', '0', page)
      local oldest = call('ZRANGE', permitsKey, '0', need > 1 and page - 1 or '0', 'WITHSCORES')
      if need == 1 and string.sub(oldest[1] or '', -4) == '\0\0\0\0' then
        oldest = call('ZRANGE', permitsKey, '0', page - 1, 'WITHSCORES')
      end
      local at, leaseAt = 1, 1
      while need > 0 do
        while oldest[at] and tonumber(oldest[at + 1]) > nowNumber and string.sub(oldest[at], 2, 5) == 'LEAS' do
          at = at + 2
        end
        while leases[leaseAt] and string.sub(leases[leaseAt], 2, 5) ~= 'LEAS' do
          leaseAt = leaseAt + 2
        end
        local wait, lease = oldest[at] and tonumber(oldest[at + 1]), leases[leaseAt] and tonumber(leases[leaseAt + 1])
        wait = wait and wait + interval - now
        lease = lease and lease - now + math.min(50, interval)
        local n, leased
        if lease and (not wait or lease < wait) then
          n, wait, leaseAt, leased = count(leases[leaseAt]), lease, leaseAt + 2, true
        elseif wait then
          n, at = count(oldest[at]), at + 2
        else
          break
        end
        n, wait = n or 0, math.min(math.max(0, wait), 9007199254740992)
        need = need - n
        n = leased and -n or n
        if wait == last and leased == lastLeased then
          reply[#reply] = reply[#reply] + n
        else
          reply[#reply + 1], reply[#reply + 2], last, lastLeased = wait, n, wait, leased
        end
      end
    end
    return report
  end
  return limiter
end
local text1 = format('%d', millis)
local limiter1 = redisson({KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]},
  {text1, ARGV[2], nil, nil, nil, ARGV[3]})
if limiter1[1] == 1 then
  return {1, format('%d', now), 1, limiter1[2]}
elseif limiter1[1] then
  table.insert(limiter1, 2, 1)
  return limiter1
end
local free1, most1 = limiter1.free, limiter1.most
local text2 = format('%d', millis)
local limiter2 = redisson({KEYS[6], KEYS[7], KEYS[8], KEYS[9], KEYS[10]},
  {text2, ARGV[4], nil, nil, nil, ARGV[5]})
if limiter2[1] == 1 then
  return {1, format('%d', now), 2, limiter2[2]}
elseif limiter2[1] then
  table.insert(limiter2, 2, 2)
  return limiter2
end
local free2, most2 = limiter2.free, limiter2.most
local answers, want = '*', 1
local report1 = limiter1.report(answers)
local report2 = limiter2.report(answers)
return {0, answers, report1, report2}

