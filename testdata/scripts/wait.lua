-- internal/include/names.lua
local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
local call, find, match, page = redis.call, string.find, string.match, 256
local DONE, AGAIN, NO_RATE, CORRUPT, PREFETCHED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
-- internal/include/numbers.lua
local ceil, floor, fmod, max, min = math.ceil, math.floor, math.fmod, math.max, math.min
-- script.lua
local hint, ended, totalText, flags, runs = ARGV[3], ARGV[4], ARGV[5], ARGV[7] or '', ARGV[8]
-- internal/include/limiter.lua
local config = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
local rate, interval, rateType, keepAlive = config[1], config[2], config[3], config[4] or '0'
if not (rate and interval and rateType) then
  return {NO_RATE}
end
local valueAt, permitsAt = 2, 3
if rateType == '1' then
  if not KEYS[5] then
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
-- internal/include/now.lua
local now = ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] .. string.format('%03d', math.floor(time[2] / 1000))
end
-- internal/include/limiter.lua
if not hinted or not ended or ended == '' then
  ended = now - interval
end
-- script.lua
local waiters, id, late, rest = KEYS[4], ARGV[11], ARGV[12] + 0, ARGV[13] + 0
local lead, permit = max(1, min(floor(rate * 250 / interval), 4294967295)), min(250, interval / rate)
local total = 1
if totalText and totalText ~= '' then
  total = totalText + 0
else
  totalText = '1'
end
if total > rate and (not runs or runs == '') then
  runs = totalText .. '*1'
end
now = now * 1000
-- internal/include/rivals.lua
local clock = 'the most advanced clock of the Clients whose callers wait for the limiter'
local time, server, ahead, moved = redis.pcall('TIME'), now, nil, 0
if time[1] then
  server = time[1] * 1000000 + time[2]
end
local offset = now - server
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
-- script.lua
if server - now > 0 and server - now < 100000 then
  moved = moved + server - now
  now = server
end
now = string.format('%d', floor(now / 1000))
ended = now - interval
-- internal/include/window.lua
local ttl = keepAlive == '0' and call('PTTL', KEYS[1])
local expired, setTTL = call('ZCOUNT', permitsKey, '-inf', ended), call('PTTL', permitsKey)
-- internal/include/value.lua
local stored = call('GET', valueKey)
if stored and stored ~= '0' and not (#stored < 18 and match(stored, '^%-?[1-9]%d*$')) then
  return {CORRUPT, valueAt, '', stored}
end
local value = stored and stored + 0
-- script.lua
if total > rate then
  local answers = {}
  for upTo, text, times in string.gmatch(runs, '(~?)(%d+)%*(%d+)') do
    if upTo == '~' or tonumber(text) <= rate then
      answers = nil
      break
    end
    answers[#answers + 1] = string.rep('x', tonumber(times))
  end
  if answers then
    return {valueAt == 2 and DONE or DONE_OWN, 0, rate, math.min(interval, 9007199254740992), 0, now + 0,
      table.concat(answers), 0, keepAlive + 0}
  end
end
-- internal/include/reclaim.lua
local spent = nil
local size = setTTL == -2 and 0 or expired > 0 and call('ZCARD', permitsKey) or nil
local dirty, more, wipe, drop = not stored or setTTL ~= -1 and ttl == -1, false, false, 0
if expired == size then
  wipe = expired > 0
  if value ~= rate then
    value, dirty = rate, true
  end
elseif expired > 0 or not value then
  -- internal/include/member.lua
  local function permitsOf(member)
    local a, b, c, d = string.byte(member, -4, -1)
    return d and a + b * 256 + c * 65536 + d * 16777216
  end
  local function grantOf(member)
    return string.sub(member, 1, -5)
  end
  local function prefetchOf(member)
    return string.sub(member, 2, 5) == 'LEAS' and string.sub(member, 2, 9) or nil
  end
  local function resized(member, n)
    return grantOf(member) .. string.char(n % 256, math.floor(n / 256) % 256, math.floor(n / 65536) % 256,
      math.floor(n / 16777216))
  end
  -- internal/include/reclaim.lua
  if expired > 0 then
    more, drop = expired > page, math.min(expired, page)
    local returned, sum = call('ZRANGE', permitsKey, '0', drop - 1), 0
    for i = 1, #returned do
      local n = permitsOf(returned[i])
      if not n then
        return {CORRUPT, permitsAt, 'member', returned[i]}
      end
      sum = sum + n
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
      local n = permitsOf(members[i])
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
-- internal/include/cap.lua
if value > rate then
  value, dirty = rate, true
end
-- script.lua
local credit = 9007199254740992
local free, holds, reach = value, true, 1
-- internal/include/share.lua
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
-- script.lua
if now + 0 < ARGV[16] + 0 then
  credit, held = -1, ARGV[16] - now
end
local granted, grantedAt = 0, now
local answers, above, missed, want
if total <= value and total <= credit then
  granted = total
elseif more then
  flags = nil -- {AGAIN}, once the expired grants of this page are removed
elseif runs or total > rate then
  if runs == '' then
    runs = totalText .. '*1'
  end
  want = 0
  local free, most, ordered = value, rate, find(flags, 'o', 1, true)
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
  -- script.lua
  if want > 0 and (ordered or find(flags, 'a', 1, true)) then
    want = rate
  end
end
if granted > 0 then
  value = value - granted
  if granted == total then
    spent = totalText -- DECRBY, unless dirty
  else
    dirty = true
  end
end
local prefetched, span = 0, 0
if ARGV[9] then
  span = math.min(tonumber(ARGV[10]), math.floor(interval / 16))
  local ends = ttl or tonumber(keepAlive)
  if granted == total and flags and span > 0 and (ends < 0 or ends >= interval + span) then
    prefetched = math.min(tonumber(ARGV[9]), math.floor(value / 2), value - math.ceil(rate / 8), 4294967295 - granted)
    prefetched = math.max(0, prefetched)
    if prefetched > 0 then
      value, granted = value - prefetched, granted + prefetched
      spent, grantedAt = string.format('%d', granted), string.format('%d', now + span)
    end
  end
end
-- internal/include/store.lua
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
-- internal/include/grant.lua
if granted > 0 and (not failed or type(failed) ~= 'table') then
  local member = ARGV[2]
  if granted ~= total then
    -- internal/include/member.lua
    local function permitsOf(member)
      local a, b, c, d = string.byte(member, -4, -1)
      return d and a + b * 256 + c * 65536 + d * 16777216
    end
    local function grantOf(member)
      return string.sub(member, 1, -5)
    end
    local function prefetchOf(member)
      return string.sub(member, 2, 5) == 'LEAS' and string.sub(member, 2, 9) or nil
    end
    local function resized(member, n)
      return grantOf(member) .. string.char(n % 256, math.floor(n / 256) % 256, math.floor(n / 65536) % 256,
        math.floor(n / 16777216))
    end
    -- internal/include/grant.lua
    member = resized(member, granted)
  end
  failed = redis.pcall('ZADD', permitsKey, grantedAt, member)
end
-- internal/include/checked.lua
if failed and failed ~= 1 and type(failed) == 'table' then
  call('SET', valueKey, '0', 'PX', '1')
  redis.pcall('UNLINK', valueKey)
  return failed
end
-- script.lua
local reply = value
if not flags then
  reply = {AGAIN, ''}
elseif granted == 0 and flags == '' and not above and hinted then
  reply = -1
elseif answers or flags ~= '' or not hinted then
  reply = {valueAt == 2 and DONE or DONE_OWN, value, rate, math.min(interval, 9007199254740992), 0, now + 0,
    answers or granted < total and 'n' or '*',
    stored and 0 or 1, keepAlive + 0}
  if find(flags, 'd', 1, true) then
    local newest = call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2]
    if newest then
      reply[5] = math.min(math.max(0, tonumber(newest) + interval - now), 9007199254740992)
    end
  end
  if want and want > 0 and find(flags, 'w', 1, true) then
    local need = want - value
    -- internal/include/member.lua
    local function permitsOf(member)
      local a, b, c, d = string.byte(member, -4, -1)
      return d and a + b * 256 + c * 65536 + d * 16777216
    end
    local function grantOf(member)
      return string.sub(member, 1, -5)
    end
    local function prefetchOf(member)
      return string.sub(member, 2, 5) == 'LEAS' and string.sub(member, 2, 9) or nil
    end
    local function resized(member, n)
      return grantOf(member) .. string.char(n % 256, math.floor(n / 256) % 256, math.floor(n / 65536) % 256,
        math.floor(n / 16777216))
    end
    -- internal/include/waits.lua
    local last, lastPrefetched, nowNumber = nil, nil, now + 0
    local prefetches = call('ZRANGEBYSCORE', permitsKey, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', '0', page)
    local oldest = call('ZRANGE', permitsKey, '0', need > 1 and page - 1 or '0', 'WITHSCORES')
    if need == 1 and oldest[1] and permitsOf(oldest[1]) == 0 then
      oldest = call('ZRANGE', permitsKey, '0', page - 1, 'WITHSCORES')
    end
    local at, prefetchAt = 1, 1
    while need > 0 do
      while oldest[at] and tonumber(oldest[at + 1]) > nowNumber and prefetchOf(oldest[at]) do
        at = at + 2
      end
      while prefetches[prefetchAt] and not prefetchOf(prefetches[prefetchAt]) do
        prefetchAt = prefetchAt + 2
      end
      local wait, prefetch = oldest[at] and tonumber(oldest[at + 1]), prefetches[prefetchAt] and tonumber(prefetches[prefetchAt + 1])
      wait = wait and wait + interval - now
      prefetch = prefetch and prefetch - now + math.min(50, interval)
      local n, prefetched
      if prefetch and (not wait or prefetch < wait) then
        n, wait, prefetchAt, prefetched = permitsOf(prefetches[prefetchAt]), prefetch, prefetchAt + 2, true
      elseif wait then
        n, at = permitsOf(oldest[at]), at + 2
      else
        break
      end
      n, wait = n or 0, math.min(math.max(0, wait), 9007199254740992)
      need = need - n
      n = prefetched and -n or n
      if wait == last and prefetched == lastPrefetched then
        reply[#reply] = reply[#reply] + n
      else
        reply[#reply + 1], reply[#reply + 2], last, lastPrefetched = wait, n, wait, prefetched
      end
    end
  -- script.lua
  end
  local next, batch, window, ends, drips = 0, rate, interval + 0, 0, false
  local need, pair = (missed or 1) - value, 10
  while need > 0 and reply[pair] do
    next, need, pair = max(next, reply[pair] * 1000), need - math.abs(reply[pair + 1]), pair + 2
  end
  local turn, number = 0, floor((now + next / 1000) / interval) * 1.6180339887498949
  if next > 0 and fmod(number, 1) < ARGV[14] + 0 then
    turn = ARGV[15] + 0
    next = next + turn * 1000
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
  -- script.lua
  local all = (tonumber(redis.pcall('ZSCORE', waiters, 'all')) or 2e15) + granted
  if granted > 0 then
    redis.pcall('ZADD', waiters, all, 'all')
  end
  all = others and all == 2e15 and -1 or all - 2e15
  reply[#reply + 1] = {others and 1 or 0, held * 1000, slow, lag * 1000, moved, turn, now - t, all}
end
if prefetched > 0 then
  reply = {PREFETCHED, prefetched, span, rate, math.min(interval, 9007199254740992), value, now + span, reply}
end
-- internal/include/expiry.lua
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
-- script.lua
return reply
