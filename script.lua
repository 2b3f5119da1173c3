-- The server's half of rratelimiter. Every change of a limiter's state is one call of one of these scripts.
--
-- A script is made of the parts that its call needs, in the order in which script.go lists them: a part starts
-- at its "--@ name" line. Parts are straight code and no functions, since a closure made on every call costs
-- more than the lines that it saves. Whatever a script reads and does is bounded by page: however many grants
-- a limiter holds, no call keeps the server busy for longer than a page of them takes.
--
-- KEYS, in every script; acquire is given the first three alone where the client takes the limiter for one that all share:
--   1 configuration   2 value   3 permits   4 this client's value   5 this client's permits
-- ARGV[1], in every script that needs the time: Unix milliseconds, or '' to ask the server's clock.
-- ARGV[6], in every script that counts grants: where the count of the call before stopped, or absent.
--
-- Replies of the scripts that start with the part limiter:
--   {1, cursor}             the work is larger than one call may do: ask again, with cursor as ARGV[6]
--   {2}                     the limiter is not initialised
--   {3, key, field, text}   text cannot be what KEYS[key], or its field, should hold; nothing was taken or set
--   {6}                     the limiter is not one that all share, and needs all keys: ask again
--   and what the part at the end of the script says
--
-- Writes. A user without the right for a command (ACL) is refused when the script comes to it, so everything is read
-- before the first write, and the writes come in an order that can stop anywhere: the value first, then the permits set,
-- where what is added comes before what goes, so that it never holds less than is taken. Where a write of the set is
-- refused the value goes too: what is free is counted from the set then, and that heals as its grants leave the window.
--
-- Lives. State never dies before its configuration: a set that is gone counts as nothing taken. Where the configuration
-- has no TTL, a set that a script touches has none either, nor has the value beside a set that had one or is new (SET takes
-- it off; DECRBY, of a plain grant, would keep it). A value that Redisson left with a TTL beside a set without may die: the
-- set is what counts then. Where the configuration has a TTL, the state's is
-- a millisecond longer: a key is there until its last millisecond is over, but a PEXPIRE during which that begins deletes
-- it. This client's own pair of a limiter that can expire outlives it by slack besides, an interval and a day: others can
-- prolong the limiter, or lengthen the interval, and cannot name the pair.

--@ names
-- What scripts call: locals, since a lone call feels each look at a global.
local redis, string = redis, string
local call, find, match, page = redis.call, string.find, string.match, 256

--@ limiter
-- Reads the limiter. Sets rate, interval, keepAlive, now, nowText, the two keys of the rate type (valueKey,
-- permitsKey with their KEYS indexes valueAt, permitsAt) and guess (nil: what acquire is given of limit).
local KEYS, ARGV = KEYS, ARGV
local config = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
local rate, interval, kind, keepAlive = config[1], config[2], config[3], config[4] or '0'
if not (rate and interval and kind) then
  return {2}
end
local valueAt, permitsAt, guess = 2, 3, nil
if kind == '1' then
  if not KEYS[4] then
    return {6}
  end
  valueAt, permitsAt = 4, 5
elseif kind ~= '0' then
  return {3, 1, 'type', kind}
end
local valueKey, permitsKey = KEYS[valueAt], KEYS[permitsAt]
-- Mostly all is as it should be.
if not (#rate < 16 and match(rate, '^%d+$') and match(interval, '^%d+$')
    and (keepAlive == '0' or #keepAlive < 16 and match(keepAlive, '^[1-9]%d*$'))) then
  -- From 2^53 on, the text alone tells whether that is the number meant.
  if not find(rate, '^%d+$') or (rate + 0 >= 9007199254740992 and rate ~= '9007199254740992') then
    return {3, 1, 'rate', rate}
  end
  if not find(interval, '^%d+$') then
    return {3, 1, 'interval', interval}
  end
  -- Redis takes no leading zeros, in PEXPIRE here and in Redisson's DECRBY, and would refuse once permits are taken.
  if keepAlive ~= '0' and not find(keepAlive, '^[1-9]%d*$') or #keepAlive > 15 then
    return {3, 1, 'keepAliveTime', keepAlive}
  end
end
-- All are numbers by now, which + 0 makes of a text in half of tonumber's time.
rate, interval = rate + 0, interval + 0
local nowText = ARGV[1]
if nowText == '' then
  local time = call('TIME')
  nowText = time[1] .. string.format('%03d', math.floor(time[2] / 1000))
end
local now = nowText + 0

--@ wanted
-- Reads the arguments of acquire: sets total, and wanted, its text.
local wanted, total = ARGV[4], 1
guess = ARGV[3]
if wanted and wanted ~= '' then
  total = wanted + 0
else
  wanted = '1'
end

--@ refuse
-- Answers at once where every request is for more than the rate: what can never be served changes nothing, and does
-- not keep a limiter alive. Arguments and reply are those of acquire.
if total > rate then
  local answers, runs = {}, ARGV[5]
  if not runs or runs == '' then
    runs = wanted .. '*1'
  end
  for text, times in string.gmatch(runs, '(%d+)%*(%d+)') do
    if tonumber(text) <= rate then
      answers = nil
      break
    end
    answers[#answers + 1] = string.rep('x', tonumber(times))
  end
  if answers then
    return {valueAt == 2 and 0 or 5, 0, rate, math.min(interval, 9007199254740992), 0, now, table.concat(answers)}
  end
end

--@ window
-- Looks at the set and at the lives. Sets ttl (of a configuration without keepAliveTime), lives (the TTL of the set, -2 where there is
-- none), limit (the score up to which grants have left), left (how many have), stale (what the client takes for known is not so).
local ttl = keepAlive == '0' and call('PTTL', KEYS[1])
local limit, stale = now - interval, false
-- To make a text of a number costs as much as a command.
if not guess or guess == '' or guess + 0 ~= limit then
  stale = guess and guess ~= ''
  guess = string.format('%d', limit)
elseif KEYS[4] and valueAt == 2 then
  stale = true
end
local left, lives = call('ZCOUNT', permitsKey, '-inf', guess), call('PTTL', permitsKey)

--@ expected
-- Grants what all is as expected for: none has left, the permits are there, and nothing has to live longer or shorter. Redis takes for
-- the value what is a number in its own eyes, the same texts that the part value takes; where it refuses, or too few are left, all is as
-- it was before, and the rest of the script decides. That spares a grant a twentieth of its time, and costs another answer a
-- fifth, so it is for calls that will be granted by all that the client knows. Arguments and reply are those of acquire, without letters.
-- Nothing is added to rest: it may be more than 2^53, from where on a number loses its last digit.
if left == 0 and lives == -1 and ttl == -1 and not stale and total <= rate and total <= 4294967295
    and redis.pcall('EXISTS', valueKey) == 1 then
  local rest = redis.pcall('DECRBY', valueKey, wanted)
  if type(rest) == 'number' then
    if rest >= 0 and rest <= rate - total then
      local failed = redis.pcall('ZADD', permitsKey, nowText, ARGV[2])
      --@checked
      return rest
    end
    call('DECRBY', valueKey, '-' .. wanted)
  end
end

--@ value
-- Reads the value. Sets stored, its text, and value, its number.
local stored = call('GET', valueKey)
if stored and stored ~= '0' and not (#stored < 18 and match(stored, '^%-?[1-9]%d*$')) then
  return {3, valueAt, '', stored}
end
local value = stored and stored + 0

--@ reclaim
-- Finds what has left the window and makes value the number of free permits, which can be negative where the rate was
-- lowered under the permits taken. Only reads. Sets dirty (value is not what Redis holds, or not for as long as it should), wipe (all
-- grants have left), drop (so many of the oldest are in value already and have to go), more (others that have left are still there),
-- spent (nil: what acquire takes off the value where that is all that changes).
local spent = nil
local grants = lives == -2 and 0 or left > 0 and call('ZCARD', permitsKey) or nil
local dirty, more, wipe, drop = not stored or lives ~= -1 and ttl == -1, false, false, 0
if left == grants then
  -- Nothing is taken, whatever the value says: all grants have left, or the set may have been evicted.
  wipe = left > 0
  if value ~= rate then
    value, dirty = rate, true
  end
else
  if left > 0 then
    more, drop = left > page, math.min(left, page)
    local returned, sum = call('ZRANGE', permitsKey, 0, drop - 1), 0
    for i = 1, #returned do
      local a, b, c, d = string.byte(returned[i], -4, -1)
      if not d then
        return {3, permitsAt, 'member', returned[i]}
      end
      sum = sum + a + b * 256 + c * 65536 + d * 16777216
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
      call('ZREMRANGEBYRANK', permitsKey, 0, drop - 1)
      return {1, ''}
    end
    local inside = (grants or call('ZCARD', permitsKey)) - left
    local newest = call('ZRANGE', permitsKey, -1, -1)[1]
    local skip, sum, mark = string.match(ARGV[6] or '', '^(%d+) (%d+) (.*)$')
    if mark == newest and tonumber(skip) <= inside then
      skip, sum = tonumber(skip), tonumber(sum)
    else
      skip, sum = 0, 0
    end
    local stop = math.min(skip + page, inside)
    local counted = stop > skip and call('ZREVRANGE', permitsKey, skip, stop - 1) or {}
    for i = 1, #counted do
      local a, b, c, d = string.byte(counted[i], -4, -1)
      if not d then
        return {3, permitsAt, 'member', counted[i]}
      end
      sum = sum + a + b * 256 + c * 65536 + d * 16777216
    end
    if stop < inside then
      return {1, string.format('%d %d ', stop, sum) .. newest}
    end
    value = rate - sum
  end
  if value > rate then
    value, dirty = rate, true
  end
end

--@ acquire
-- Answers requests for permits, in their order.
-- ARGV[2] the member for a grant of them all
-- ARGV[3] what the client takes for the time less the interval, absent or '' where it does not know: where that is wrong, or
--         keys were given that are not needed, the reply to whom all was granted is the long one
-- ARGV[4] the permits of all requests together; absent or '' for 1, which is asked for most
-- ARGV[5] the requests, with equal neighbours told once: '1*200 3*1'; absent or '' for a single one
-- ARGV[7] letters: d tells rate and reset even where all is granted, w tells waits,
--         o keeps the order: behind a request that is not granted none is, a tells all waits
-- Replies, without d, with the permits left where all were granted and with -1 where none was for now; else
--   {0, left, rate, interval, reset, now, answers, wait, permits, wait, permits, ...}, or 5 in the place of 0 where the
--   limiter is not one that all share
-- interval: of the rate, milliseconds, at most 2^53
-- reset: milliseconds until the newest grant leaves the window, 0 without d
-- now: Unix milliseconds, which waits and reset count from
-- answers: a letter for each request: g granted, n not now, x more than the rate; or '*', all granted
-- wait, permits: so many permits come back after so many milliseconds; only as many pairs as the requests that
--         were not granted need (all, for o and a), and at most a page of them
local granted, flags, dated = 0, ARGV[7] or '', nowText
local answers, want, above
if total <= value then
  granted = total
elseif more then
  flags = nil
elseif ARGV[5] or total > rate then
  answers = {}
  local shut, ordered, runs = false, find(flags, 'o', 1, true), ARGV[5]
  if not runs or runs == '' then
    runs = wanted .. '*1'
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
  value = value - granted
  if granted == total then
    spent = wanted
  else
    dirty = true
  end
end

--@ lease
-- Behind acquire: where all was granted and much is left, grants more, for the process to hand out. All that the call grants is
-- dated at the lease's end, so that it stays taken until an interval after the last moment at which a permit of it can be used.
-- Nothing is leased where the limiter may be gone by then, nor for longer than a sixteenth of the interval, nor more than half
-- of what is free, and none of the last eighth of the rate, which all find as it is. One member has it all.
-- ARGV[8] the permits
-- ARGV[9] milliseconds
local leased, span = 0, math.min(tonumber(ARGV[9]), math.floor(interval / 16))
local ends = ttl or tonumber(keepAlive)
if granted == total and flags and span > 0 and (ends < 0 or ends > span) then
  leased = math.max(0, math.min(tonumber(ARGV[8]), math.floor(value / 2), value - math.ceil(rate / 8), 4294967295 - granted))
  if leased > 0 then
    value, granted = value - leased, granted + leased
    spent, dated = string.format('%d', granted), string.format('%d', now + span)
  end
end

--@ leased
-- Ends the reply of a call that leased permits: {4, permits, milliseconds, rate, interval, free, reply of acquire}.
if leased > 0 then
  reply = {4, leased, span, rate, math.min(interval, 9007199254740992), value, reply}
end

--@ store
-- Writes value, and takes out of the set what is in it already. Sets failed, an error where a write of the set was
-- refused: the parts up to checked write no more then.
if dirty then
  call('SET', valueKey, string.format('%d', value))
elseif spent then
  call('DECRBY', valueKey, spent)
end
local failed
if wipe then
  failed = redis.pcall('UNLINK', permitsKey)
elseif drop > 0 then
  failed = redis.pcall('ZREMRANGEBYRANK', permitsKey, 0, drop - 1)
end

--@ grant
-- Puts what acquire granted into the set.
if granted > 0 and (not failed or type(failed) ~= 'table') then
  if granted == total and total <= 4294967295 then
    failed = redis.pcall('ZADD', permitsKey, dated, ARGV[2])
  else
    -- One member counts to 4294967295. More are several members, told apart by the last bytes of their random part.
    local random, index, rest = string.sub(ARGV[2], 1, 17), 0, granted
    while rest > 0 and type(failed) ~= 'table' do
      local n = math.min(rest, 4294967295)
      if granted > 4294967295 then
        random = string.sub(ARGV[2], 1, 13) .. string.char(index % 256, math.floor(index / 256) % 256,
          math.floor(index / 65536) % 256, math.floor(index / 16777216))
      end
      failed = redis.pcall('ZADD', permitsKey, dated, random .. string.char(n % 256, math.floor(n / 256) % 256,
        math.floor(n / 65536) % 256, math.floor(n / 16777216)))
      index, rest = index + 1, rest - n
    end
  end
end

--@ swap
-- Puts the member add into the set in the place of the member cut: what is left of one grant, or '' for nothing.
if cut and type(failed) ~= 'table' then
  if add ~= '' then
    failed = redis.pcall('ZADD', permitsKey, score, add)
  end
  if type(failed) ~= 'table' then
    failed = redis.pcall('ZREM', permitsKey, cut)
  end
end

--@ checked
-- Ends the script where a write of the set was refused. There is no DEL here, whose right may be the one that is
-- missing: a value that lives for a millisecond and grants nothing goes as well. A plain grant's reply is 1, which is no error.
if failed and failed ~= 1 and type(failed) == 'table' then
  call('SET', valueKey, '0', 'PX', '1')
  return failed
end

--@ answer
-- Makes the reply of acquire.
local reply = value
if not flags then
  reply = {1, ''}
elseif granted == 0 and flags == '' and not above then
  reply = -1
elseif answers or stale or flags ~= '' then
  reply = {valueAt == 2 and 0 or 5, value, rate, math.min(interval, 9007199254740992), 0, now, answers and table.concat(answers) or '*'}
  if find(flags, 'd', 1, true) then
    local newest = call('ZRANGE', permitsKey, -1, -1, 'WITHSCORES')[2]
    if newest then
      reply[5] = math.min(math.max(0, tonumber(newest) + interval - now), 9007199254740992)
    end
  end
  if want and find(flags, 'w', 1, true) then
    local need, last = want - value, nil
    local grants = call('ZRANGE', permitsKey, '0', need > 1 and '255' or '0', 'WITHSCORES')
    -- The oldest grant alone is enough where one permit is wanted, but not one of no permits, as Redisson makes them.
    if need == 1 and string.sub(grants[1] or '', -4) == '\0\0\0\0' then
      grants = call('ZRANGE', permitsKey, '0', '255', 'WITHSCORES')
    end
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
local cut, add, score
if value + n >= rate then
  value, wipe = rate, true
elseif more then
  reply = {1, ''}
else
  local grants = call('ZRANGE', permitsKey, drop, drop + page - 1, 'WITHSCORES')
  local rest = n
  for i = 1, #grants, 2 do
    if rest == 0 then
      break
    end
    local a, b, c, d = string.byte(grants[i], -4, -1)
    if not d then
      return {3, permitsAt, 'member', grants[i]}
    end
    local held = a + b * 256 + c * 65536 + d * 16777216
    if held > rest then
      held = held - rest
      cut, score, rest = grants[i], grants[i + 1], 0
      add = string.sub(cut, 1, -5) .. string.char(held % 256, math.floor(held / 256) % 256,
        math.floor(held / 65536) % 256, math.floor(held / 16777216))
    else
      drop, rest = drop + 1, rest - held
    end
  end
  if rest > 0 and #grants == page * 2 then
    n, reply[2] = n - rest, rest
  end
  value = value + n
end
dirty = true

--@ giveback
-- Gives back permits of one grant whose callers had gone. Where that grant is not there its permits are back already:
-- it has left the window, or was released, or was lost in a failover. What is taken then belongs to others. A release
-- by somebody else may have cut it: then it is among the oldest, under the same random bytes.
-- ARGV[2] the permits
-- ARGV[3] the member of the grant
-- ARGV[4] the member of what stays taken of it, or ''
local reply, n = {0, 0}, tonumber(ARGV[2])
local cut, add, score = ARGV[3], ARGV[4], call('ZSCORE', permitsKey, ARGV[3])
if not score then
  local grants, random = call('ZRANGE', permitsKey, drop, drop + page - 1, 'WITHSCORES'), string.sub(cut, 1, 17)
  for i = 1, #grants, 2 do
    if string.sub(grants[i], 1, 17) == random and #grants[i] == 21 then
      local a, b, c, d = string.byte(grants[i], -4, -1)
      local held = a + b * 256 + c * 65536 + d * 16777216
      cut, score, add = grants[i], grants[i + 1], ''
      if held > n then
        held = held - n
        add = random .. string.char(held % 256, math.floor(held / 256) % 256,
          math.floor(held / 65536) % 256, math.floor(held / 16777216))
      else
        n = held
      end
      break
    end
  end
end
if score and tonumber(score) > limit then
  value, dirty = math.min(rate, value + n), true
else
  cut = nil
end

--@ expiry
-- Lets the state live as long as the configuration, for keepAliveTime from now or until the expiry that was set, and
-- this client's own pair by slack longer.
local life
if keepAlive ~= '0' then
  call('PEXPIRE', KEYS[1], keepAlive)
  life = keepAlive + 1
elseif ttl >= 0 and ttl < 1e15 then
  life = ttl + 1
end
if life then
  if valueAt == 4 then
    life = life + math.min(interval, 1e15) + 86400000
  end
  call('PEXPIRE', valueKey, life)
  call('PEXPIRE', permitsKey, life)
elseif lives >= 0 then
  call('PERSIST', permitsKey)
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
local config = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
if config[3] then
  return 0
end
for i = 1, 4 do
  if config[i] and not find(config[i], '^%d+$') then
    return {3, 1, fields[i], config[i]}
  end
end
for i = 1, 4 do
  call('HSETNX', KEYS[1], fields[i], ARGV[i])
end
if ARGV[4] ~= '0' then
  call('PEXPIRE', KEYS[1], ARGV[4])
end
return 1

--@ setrate
-- Sets the rate, whatever it was.
-- ARGV[2] to ARGV[5]: rate, interval, type, keepAliveTime
-- ARGV[6] letters: e only where the limiter exists, k keeps what is taken
-- Replies 1 where it was set, 0 where not, or {3, ...}
local interval, keepAlive, ttl, lives = tonumber(ARGV[3]), ARGV[5], -1, 0
local keep = find(ARGV[6], 'k', 1, true)
local old = call('HMGET', KEYS[1], 'rate', 'type', 'keepAliveTime')
if find(ARGV[6], 'e', 1, true) and call('EXISTS', KEYS[1]) == 0 then
  return 0
end
-- A TTL that came from the old keepAliveTime would delete a limiter that is to stay.
local stays = keepAlive == '0' and (tonumber(old[3] or '0') or 0) > 0
if keepAlive == '0' and not stays then
  ttl = call('PTTL', KEYS[1])
end
local valueAt, permitsAt = 2, 3
if ARGV[4] == '1' then
  valueAt, permitsAt = 4, 5
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
-- Without a value it is the set that counts, under the old rate as under the new one, wherever the writes stop.
call('UNLINK', valueKey)
call('HSET', KEYS[1], 'rate', ARGV[2], 'interval', ARGV[3], 'type', ARGV[4], 'keepAliveTime', ARGV[5])
if keepAlive ~= '0' then
  call('PEXPIRE', KEYS[1], keepAlive)
elseif stays then
  call('PERSIST', KEYS[1])
end
if old[2] ~= ARGV[4] and (old[2] or not keep) then
  call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
  return 1
end
if not keep then
  call('UNLINK', permitsKey)
  return 1
end
if gone and gone > 0 then
  call('ZREMRANGEBYRANK', permitsKey, 0, gone - 1)
end
if value then
  call('SET', valueKey, value)
end
local reply = 1

--@ slack
-- Sets slack, by how much this client's own pair outlives the configuration, ttl of the configuration, and base, behind
-- which the keys stand of the limiter that the script leaves.
local base = #KEYS - 5
local ttl = call('PTTL', KEYS[1])
local interval = tonumber(call('HMGET', KEYS[1], 'interval')[1] or '0') or 0
local slack = math.floor(math.max(0, math.min(interval, 1e15))) + 86400000

--@ each
-- Runs one command on every key, for what Redisson does to the five keys alike. Where it gives an expiry, the state gets
-- it with a millisecond, and this client's own pair with slack besides. Whether one is later (GT) or earlier (LT), the
-- configuration says for its own pair, too.
-- ARGV: the command and what follows its key
-- Replies the number of keys that it changed, or -2 where the server does not know the conditions
local time, life, own = tonumber(ARGV[2]), ARGV[2], ARGV[2]
local reply = redis.pcall(ARGV[1], KEYS[1], unpack(ARGV, 2))
if type(reply) == 'table' then
  if ARGV[3] and string.find(reply.err, 'rong number of arg') then
    return -2
  end
  return reply
end
ttl = call('PTTL', KEYS[1])
if time and time < 1e15 and ttl ~= -2 then
  life, own = time + 1, time + 1 + slack
end
local compares = ttl ~= -2 and string.find(table.concat(ARGV, ' ', 3), '[GL]T')
for i = 2, 5 do
  if not time then
    reply = reply + call(ARGV[1], KEYS[i])
  elseif i < 4 then
    reply = reply + call(ARGV[1], KEYS[i], life, unpack(ARGV, 3))
  else
    local changed = call(ARGV[1], KEYS[i], own, unpack(ARGV, 3))
    reply = reply + (compares and 0 or changed)
  end
end

--@ expiretime
-- Replies when the configuration expires, Unix milliseconds, -1 for never, -2 where there is none.
local at = redis.pcall('PEXPIRETIME', KEYS[1])
if type(at) ~= 'number' then
  -- A server older than 7.0.
  local time = call('TIME')
  at = call('PTTL', KEYS[1])
  if at >= 0 then
    at = at + time[1] * 1000 + math.floor(time[2] / 1000)
  end
end
return at

--@ move
-- Renames or copies a limiter with all its state. The new name's old state goes, so that the two cannot mix.
-- KEYS[6] to KEYS[10]: the keys of the new name
-- ARGV[1] RENAME or COPY, ARGV[2] 1 to replace a limiter of the new name
-- Replies 1 where it moved, 0 where the new name has a limiter that must stay, -1 where there is none to move, -2 where
-- the server has no COPY
local reply = 1
if ttl == -2 then
  return -1
end
if ARGV[2] ~= '1' and call('EXISTS', KEYS[6]) == 1 then
  return 0
end
if KEYS[1] == KEYS[6] then
  return 1
end
if ARGV[1] == 'COPY' then
  -- The other way round, and without REPLACE, it changes nothing: there is KEYS[1].
  local able = redis.pcall('COPY', KEYS[6], KEYS[1])
  if type(able) == 'table' then
    return string.find(able.err, 'nknown') and -2 or able
  end
end
-- Without values it is the sets that count, should RENAME be refused.
call('UNLINK', KEYS[7], KEYS[9])
for i = 1, 5 do
  if i > 1 then
    call('UNLINK', KEYS[i + 5])
  end
  if call('EXISTS', KEYS[i]) == 1 then
    if ARGV[1] == 'COPY' then
      call('COPY', KEYS[i], KEYS[i + 5], 'REPLACE')
    else
      call('RENAME', KEYS[i], KEYS[i + 5])
    end
  end
end

--@ outlive
-- Lets no state of this client that has a TTL die before the configuration.
for i = base + 2, base + 5 do
  local life = call('PTTL', KEYS[i])
  if ttl ~= -2 and life >= 0 then
    local least = ttl + 1
    if i - base > 3 then
      least = least + slack
    end
    if ttl < 0 or ttl >= 1e15 then
      call('PERSIST', KEYS[i])
    elseif life < least then
      call('PEXPIRE', KEYS[i], least)
    end
  end
end
return reply
