-- The server's half of rratelimiter. Every change of a limiter's state is one call of one of these scripts.
--
-- A script is made of the parts that its call needs, in the order in which script.go lists them: a part starts
-- at its "--@ name" line. Parts are straight code and no functions, since a closure made on every call costs
-- more than the lines that it saves. Whatever a script reads and does is bounded by page: however many grants
-- a limiter holds, no call keeps the server busy for longer than a page of them takes.
--
-- KEYS, in every script (Redisson's own order):
--   1 configuration   2 value   3 this client's value   4 permits   5 this client's permits
-- ARGV[1], in every script that needs the time: Unix milliseconds, or '' to ask the server's clock.
-- ARGV[6], in every script that counts grants: where the count of the call before stopped, or absent.
--
-- Replies of the scripts that start with the part limiter:
--   {1, cursor}             the work is larger than one call may do: ask again, with cursor as ARGV[6]
--   {2}                     the limiter is not initialised
--   {3, key, field, text}   text cannot be what KEYS[key], or its field, should hold; nothing was taken or set
--   and what the part at the end of the script says
--
-- An error that a redis.call raises stops a script before its first write: each reads all that it needs first.

--@ limiter
-- Reads the limiter. Sets rate, interval, keepAlive, now, nowText, the two keys of the rate type (valueKey,
-- permitsKey with their KEYS indexes valueAt, permitsAt), stored (the text of the value) and value (its number).
local call, page = redis.call, 256
local config = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
if not (config[1] and config[2] and config[3]) then
  return {2}
end
local valueAt, permitsAt = 2, 4
if config[3] == '1' then
  valueAt, permitsAt = 3, 5
elseif config[3] ~= '0' then
  return {3, 1, 'type', config[3]}
end
local valueKey, permitsKey = KEYS[valueAt], KEYS[permitsAt]
local stored = call('GET', valueKey)
local find, keepAlive = string.find, config[4] or '0'
local rate, interval, value = tonumber(config[1]), tonumber(config[2]), stored and tonumber(stored)
-- Mostly all are digits, which one look finds.
if not (rate and interval and value ~= nil and rate < 9007199254740992 and keepAlive ~= '' and #keepAlive < 16
    and find(config[1] .. config[2] .. keepAlive .. (stored or ''), '^%d+$')
    and (keepAlive == '0' or keepAlive >= '1') and (not stored or stored == '0' or stored >= '1' and #stored < 18)) then
  -- From 2^53 on, the text alone tells whether that is the number meant.
  if not find(config[1], '^%d+$') or (rate >= 9007199254740992 and config[1] ~= '9007199254740992') then
    return {3, 1, 'rate', config[1]}
  end
  if not find(config[2], '^%d+$') then
    return {3, 1, 'interval', config[2]}
  end
  -- PEXPIRE and DECRBY take no leading zeros, and their errors would come when the permits are taken already.
  if keepAlive ~= '0' and not find(keepAlive, '^[1-9]%d*$') or #keepAlive > 15 then
    return {3, 1, 'keepAliveTime', keepAlive}
  end
  if stored and stored ~= '0' and not (find(stored, '^%-?[1-9]%d*$') and #stored < 18) then
    return {3, valueAt, '', stored}
  end
end
local nowText = ARGV[1]
if nowText == '' then
  local time = call('TIME')
  nowText = time[1] .. string.format('%03d', math.floor(time[2] / 1000))
end
local now = tonumber(nowText)

--@ refuse
-- Answers at once where every request is for more than the rate: what can never be served changes nothing, and does
-- not keep a limiter alive. Arguments and reply are those of acquire. Sets total.
local total = tonumber(ARGV[2])
if total > rate then
  local answers, runs = {}, ARGV[4]
  if not runs or runs == '' then
    runs = ARGV[2] .. '*1'
  end
  for text, times in string.gmatch(runs, '(%d+)%*(%d+)') do
    if tonumber(text) <= rate then
      answers = nil
      break
    end
    answers[#answers + 1] = string.rep('x', tonumber(times))
  end
  if answers then
    return {0, 0, rate, math.min(interval, 9007199254740992), 0, now, table.concat(answers)}
  end
end

--@ reclaim
-- Gives back what has left the window and makes value the number of free permits, which can be negative where
-- the rate was lowered under the permits taken. Sets dirty (value is not what Redis holds) and
-- more (grants that have left the window are still in the set).
local limit = string.format('%d', now - interval)
local left, grants = call('ZCOUNT', permitsKey, '-inf', limit), call('ZCARD', permitsKey)
local dirty, more = not stored, false
if left == grants then
  -- Nothing is taken, whatever the value says: all grants have left, or the set may have been evicted.
  if grants > 0 then
    call('UNLINK', permitsKey)
  end
  if value ~= rate then
    value, dirty = rate, true
  end
else
  if left > 0 then
    more = left > page
    local returned, sum = call('ZRANGEBYSCORE', permitsKey, '-inf', limit, 'LIMIT', '0', '256'), 0
    for i = 1, #returned do
      local a, b, c, d = string.byte(returned[i], -4, -1)
      if not d then
        return {3, permitsAt, 'member', returned[i]}
      end
      sum = sum + a + b * 256 + c * 65536 + d * 16777216
    end
    if more then
      call('ZREMRANGEBYRANK', permitsKey, '0', '255')
    else
      call('ZREMRANGEBYSCORE', permitsKey, '-inf', limit)
    end
    dirty = true
    if value then
      value = value + sum
    end
  end
  if not value then
    -- The value alone was lost. Free is what the grants in the set leave free: count them, newest first, so that
    -- grants which leave the window meanwhile do not move those already counted.
    if more then
      return {1, ''}
    end
    local newest = call('ZRANGE', permitsKey, -1, -1)[1]
    local skip, sum, mark = string.match(ARGV[6] or '', '^(%d+) (%d+) (.*)$')
    if mark == newest and tonumber(skip) <= grants - left then
      skip, sum = tonumber(skip), tonumber(sum)
    else
      skip, sum = 0, 0
    end
    local counted = call('ZREVRANGE', permitsKey, skip, skip + page - 1)
    for i = 1, #counted do
      local a, b, c, d = string.byte(counted[i], -4, -1)
      if not d then
        return {3, permitsAt, 'member', counted[i]}
      end
      sum = sum + a + b * 256 + c * 65536 + d * 16777216
    end
    if #counted == page then
      return {1, string.format('%d %d ', skip + #counted, sum) .. newest}
    end
    value = rate - sum
  end
  if value > rate then
    value, dirty = rate, true
  end
end

--@ acquire
-- Answers requests for permits, in their order.
-- ARGV[2] the permits of all requests together
-- ARGV[3] the member for a grant of them all
-- ARGV[4] the requests, with equal neighbours told once: '1*200 3*1'; absent or '' for a single one
-- ARGV[5] letters: d tells rate and reset even where all is granted, w tells waits,
--         o keeps the order: behind a request that is not granted none is, a tells all waits
-- Replies, without d, with the permits left where all were granted and with -1 where none was for now; else
--   {0, left, rate, interval, reset, now, answers, wait, permits, wait, permits, ...}
-- interval: of the rate, milliseconds, at most 2^53
-- reset: milliseconds until the newest grant leaves the window, 0 without d
-- now: Unix milliseconds, which waits and reset count from
-- answers: a letter for each request: g granted, n not now, x more than the rate; or '*', all granted
-- wait, permits: so many permits come back after so many milliseconds; only as many pairs as the requests that
--         were not granted need (all, for o and a), and at most a page of them
local granted, flags = 0, ARGV[5] or ''
local answers, want, above
if total <= value then
  granted = total
elseif more then
  call('SET', valueKey, string.format('%d', value), 'KEEPTTL')
  return {1, ''}
elseif ARGV[4] or total > rate then
  answers = {}
  local shut, ordered, runs = false, find(flags, 'o', 1, true), ARGV[4]
  if not runs or runs == '' then
    runs = ARGV[2] .. '*1'
  end
  for text, times in string.gmatch(runs, '(%d+)%*(%d+)') do
    local n, got = tonumber(text), 0
    times = tonumber(times)
    if n > rate then
      answers[#answers + 1] = string.rep('x', times)
      above = true
    else
      if not shut and n <= value - granted then
        got = math.min(times, math.floor((value - granted) / n))
        granted = granted + got * n
        answers[#answers + 1] = string.rep('g', got)
      end
      if got < times then
        answers[#answers + 1] = string.rep('n', times - got)
        want = math.max(want or 0, n)
        shut = ordered
      end
    end
  end
  if want and (ordered or find(flags, 'a', 1, true)) then
    want = rate
  end
end
if granted > 0 then
  if dirty or answers then
    call('SET', valueKey, string.format('%d', value - granted), 'KEEPTTL')
  else
    call('DECRBY', valueKey, ARGV[2])
  end
  value, dirty = value - granted, false
  if granted == total and total <= 4294967295 then
    call('ZADD', permitsKey, nowText, ARGV[3])
  else
    -- One member counts to 4294967295. More are several members, told apart by the last bytes of their random part.
    local random, index, rest = string.sub(ARGV[3], 1, 17), 0, granted
    while rest > 0 do
      local n = math.min(rest, 4294967295)
      if granted > 4294967295 then
        random = string.sub(ARGV[3], 1, 13) .. string.char(index % 256, math.floor(index / 256) % 256,
          math.floor(index / 65536) % 256, math.floor(index / 16777216))
      end
      call('ZADD', permitsKey, nowText, random .. string.char(n % 256, math.floor(n / 256) % 256,
        math.floor(n / 65536) % 256, math.floor(n / 16777216)))
      index, rest = index + 1, rest - n
    end
  end
elseif dirty then
  call('SET', valueKey, string.format('%d', value), 'KEEPTTL')
end
local reply = value
if granted == 0 and flags == '' and not above then
  reply = -1
elseif answers or flags ~= '' then
  reply = {0, value, rate, math.min(interval, 9007199254740992), 0, now, answers and table.concat(answers) or '*'}
  if find(flags, 'd', 1, true) then
    local newest = call('ZRANGE', permitsKey, -1, -1, 'WITHSCORES')[2]
    if newest then
      reply[5] = math.min(math.max(0, tonumber(newest) + interval - now), 9007199254740992)
    end
  end
  if want and find(flags, 'w', 1, true) then
    local need, last = want - value, nil
    local grants = call('ZRANGE', permitsKey, '0', need > 1 and '255' or '0', 'WITHSCORES')
    for i = 1, #grants, 2 do
      local a, b, c, d = string.byte(grants[i], -4, -1)
      local n = d and a + b * 256 + c * 65536 + d * 16777216 or 0
      local wait = math.min(math.max(0, tonumber(grants[i + 1]) + interval - now), 9007199254740992)
      if wait == last then
        reply[#reply] = reply[#reply] + n
      else
        reply[#reply + 1] = wait
        reply[#reply + 1] = n
        last = wait
      end
      need = need - n
      if need <= 0 then
        break
      end
    end
  end
end

--@ release
-- Gives permits back. The oldest grants shrink by as much, so that no permit comes back a second time.
-- ARGV[2] the permits
-- Replies {0, rest}: rest, mostly 0, is what another call has to give back
local n, reply = tonumber(ARGV[2]), {0, 0}
if value + n >= rate then
  call('UNLINK', permitsKey)
  value = rate
else
  local grants = call('ZRANGE', permitsKey, 0, page - 1, 'WITHSCORES')
  local rest, whole, cut = n, 0, nil
  for i = 1, #grants, 2 do
    local a, b, c, d = string.byte(grants[i], -4, -1)
    if not d then
      if dirty then
        call('SET', valueKey, value, 'KEEPTTL') -- what has left the window is back all the same
      end
      return {3, permitsAt, 'member', grants[i]}
    end
    local held = a + b * 256 + c * 65536 + d * 16777216
    if held > rest then
      cut = {grants[i], grants[i + 1], held - rest}
      rest = 0
      break
    end
    whole, rest = whole + 1, rest - held
  end
  if whole > 0 then
    call('ZREMRANGEBYRANK', permitsKey, 0, whole - 1)
  end
  if cut then
    call('ZREM', permitsKey, cut[1])
    call('ZADD', permitsKey, cut[2], string.sub(cut[1], 1, -5) .. string.char(cut[3] % 256,
      math.floor(cut[3] / 256) % 256, math.floor(cut[3] / 65536) % 256, math.floor(cut[3] / 16777216)))
  elseif rest > 0 and #grants == page * 2 then
    n, reply[2] = n - rest, rest
  end
  value = value + n
end
call('SET', valueKey, value, 'KEEPTTL')

--@ giveback
-- Gives back permits of one grant whose callers had gone. Where that grant is not there its permits are back already:
-- it has left the window, or was released, or was lost in a failover. What is taken then belongs to others.
-- ARGV[2] the permits
-- ARGV[3] the member of the grant
-- ARGV[4] the member of what stays taken of it, or ''
local reply = {0, 0}
local score = call('ZSCORE', permitsKey, ARGV[3])
if score then
  if ARGV[4] ~= '' then
    call('ZADD', permitsKey, score, ARGV[4])
  end
  call('ZREM', permitsKey, ARGV[3])
  value, dirty = math.min(rate, value + tonumber(ARGV[2])), true
end
if dirty then
  call('SET', valueKey, string.format('%d', value), 'KEEPTTL')
end

--@ expiry
-- Lets the state live as long as the configuration: for keepAliveTime from now, or until the expiry that was set.
-- Where neither is given, this client's own pair goes once nothing in it can count any more: nobody could name it
-- after the client is gone. The shared pair stays, since Redisson would not extend its expiry.
if keepAlive ~= '0' then
  call('PEXPIRE', KEYS[1], keepAlive)
  call('PEXPIRE', valueKey, keepAlive)
  call('PEXPIRE', permitsKey, keepAlive)
else
  local ttl = call('PTTL', KEYS[1])
  if ttl < 0 and valueAt == 3 and interval < 1e15 then
    ttl = interval
  end
  if ttl ~= -1 then
    call('PEXPIRE', valueKey, ttl)
    call('PEXPIRE', permitsKey, ttl)
  end
end
return reply

--@ available
-- Replies {0, free}. Only reads: where grants have left the window or the value is lost, it counts, and goes
-- on counting in the next call, as long as the grant that the count began with stands.
local free = value
local first, final = 'ZRANGE', 'ZREVRANGE'
if not value then
  first, final = final, first
end
local begin = call(first, permitsKey, 0, 0, 'WITHSCORES')
if not begin[1] then
  return {0, rate}
end
local limit = now - interval
local newest = value and call('ZRANGE', permitsKey, -1, -1, 'WITHSCORES')[2] or begin[2]
if tonumber(newest) <= limit then
  return {0, rate}
end
local skip, sum, mark = string.match(ARGV[6] or '', '^(%d+) (%d+) (.*)$')
if mark == begin[1] then
  skip, sum = tonumber(skip), tonumber(sum)
else
  skip, sum = 0, 0
end
local grants = call(first, permitsKey, skip, skip + page - 1, 'WITHSCORES')
local done = #grants < page * 2
for i = 1, #grants, 2 do
  -- With a value, what has left the window is free besides; without one, what has not left it is taken.
  local left = tonumber(grants[i + 1]) <= limit
  if left ~= (value ~= false) then
    done = true
    break
  end
  local a, b, c, d = string.byte(grants[i], -4, -1)
  if not d then
    return {3, permitsAt, 'member', grants[i]}
  end
  sum = sum + a + b * 256 + c * 65536 + d * 16777216
end
if not done then
  return {1, string.format('%d %d ', skip + page, sum) .. begin[1]}
end
free = value and value + sum or rate - sum
return {0, math.max(0, math.min(rate, free))}

--@ trysetrate
-- Sets the rate of a limiter that has none.
-- ARGV: rate, interval, type, keepAliveTime
-- Replies 1 where it was set, 0 where the limiter had a rate, in which case nothing changes, or {3, ...}
local fields = {'rate', 'interval', 'type', 'keepAliveTime'}
local config = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
if config[3] then
  return 0
end
for i = 1, 4 do
  if config[i] and not string.find(config[i], '^%d+$') then
    return {3, 1, fields[i], config[i]}
  end
end
for i = 1, 4 do
  redis.call('HSETNX', KEYS[1], fields[i], ARGV[i])
end
if ARGV[4] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
return 1

--@ setrate
-- Sets the rate, whatever it was.
-- ARGV[2] to ARGV[5]: rate, interval, type, keepAliveTime
-- ARGV[6] letters: e only where the limiter exists, k keeps what is taken
-- Replies 1 where it was set, 0 where not, or {3, ...}
local call, find, page = redis.call, string.find, 256
local interval, keepAlive = tonumber(ARGV[3]), ARGV[5]
local keep = find(ARGV[6], 'k', 1, true)
local old = call('HMGET', KEYS[1], 'rate', 'type', 'keepAliveTime')
if find(ARGV[6], 'e', 1, true) and call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local valueAt, permitsAt = 2, 4
if ARGV[4] == '1' then
  valueAt, permitsAt = 3, 5
end
local valueKey, permitsKey = KEYS[valueAt], KEYS[permitsAt]
local value, gone
-- Where the configuration was lost, what is left of the state is still what was taken.
if keep and (not old[2] or old[2] == ARGV[4]) then
  local rate, now = tonumber(ARGV[2]), tonumber(ARGV[1])
  if not now then
    local time = call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  local stored = call('GET', valueKey)
  if stored and not find(stored, '^%-?%d+$') then
    return {3, valueAt, '', stored}
  end
  if call('ZCARD', permitsKey) <= page then
    local grants, used = call('ZRANGE', permitsKey, 0, -1, 'WITHSCORES'), 0
    gone = 0
    for i = 1, #grants, 2 do
      local a, b, c, d = string.byte(grants[i], -4, -1)
      if not d then
        return {3, permitsAt, 'member', grants[i]}
      end
      if tonumber(grants[i + 1]) <= now - interval then
        gone = gone + 1
      else
        used = used + a + b * 256 + c * 65536 + d * 16777216
      end
    end
    -- Below 0 where more is taken than the new rate: those permits come back before any is granted.
    value = rate - used
  elseif stored and tonumber(old[1]) then
    -- Too many grants to count in one call: as many as the old rate and value say. Those that have left the
    -- new interval are given back by the calls that come.
    value = math.min(rate, tonumber(stored) + rate - tonumber(old[1]))
  end
end
call('HSET', KEYS[1], 'rate', ARGV[2], 'interval', ARGV[3], 'type', ARGV[4], 'keepAliveTime', ARGV[5])
if keepAlive ~= '0' then
  call('PEXPIRE', KEYS[1], keepAlive)
elseif (tonumber(old[3] or '0') or 0) > 0 then
  -- The TTL came from the old keepAliveTime, which would delete a limiter that is to stay.
  call('PERSIST', KEYS[1])
  call('PERSIST', valueKey)
  call('PERSIST', permitsKey)
end
if old[2] ~= ARGV[4] and (old[2] or not keep) then
  call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
  return 1
end
if not keep then
  call('UNLINK', valueKey, permitsKey)
  return 1
end
if value then
  call('SET', valueKey, value, 'KEEPTTL')
else
  call('UNLINK', valueKey)
end
if gone and gone > 0 then
  call('ZREMRANGEBYRANK', permitsKey, 0, gone - 1)
end
local reply = 1

--@ each
-- Runs one command on every key, for what Redisson does to the five keys alike.
-- ARGV: the command and what follows its key
-- Replies the number of keys that it changed
local changed = 0
for i = 1, #KEYS do
  changed = changed + redis.call(ARGV[1], KEYS[i], unpack(ARGV, 2))
end
return changed

--@ expiretime
-- Replies when the configuration expires, Unix milliseconds, -1 for never, -2 where there is none.
local at = redis.pcall('PEXPIRETIME', KEYS[1])
if type(at) ~= 'number' then
  -- A server older than 7.0.
  local time = redis.call('TIME')
  at = redis.call('PTTL', KEYS[1])
  if at >= 0 then
    at = at + time[1] * 1000 + math.floor(time[2] / 1000)
  end
end
return at

--@ move
-- Renames or copies a limiter with all its state. The new name's old state goes, so that the two cannot mix.
-- KEYS[6] to KEYS[10]: the keys of the new name
-- ARGV[1] RENAME or COPY, ARGV[2] 1 to replace a limiter of the new name
-- Replies 1 where it moved, 0 where the new name has a limiter that must stay, -1 where there is none to move
if redis.call('EXISTS', KEYS[1]) == 0 then
  return -1
end
if ARGV[2] ~= '1' and redis.call('EXISTS', KEYS[6]) == 1 then
  return 0
end
if KEYS[1] == KEYS[6] then
  return 1
end
for i = 1, 5 do
  -- The configuration goes first and in one step: a server that lacks COPY refuses it before anything has changed.
  if i > 1 then
    redis.call('UNLINK', KEYS[i + 5])
  end
  if redis.call('EXISTS', KEYS[i]) == 1 then
    if ARGV[1] == 'COPY' then
      redis.call('COPY', KEYS[i], KEYS[i + 5], 'REPLACE')
    else
      redis.call('RENAME', KEYS[i], KEYS[i + 5])
    end
  end
end
return 1
