-- The scripts of this library for a limiter in Redisson's layout. Every change of a limiter's state
-- is one call of one of them.
--
-- A script consists of the parts that script.go lists. A part starts at its line "--@ name  in: ...
-- out: ...". That line names the locals that the part reads, and those that it sets for later
-- parts. "--+" continues the line, and a line "--@name" includes another part. testdata/scripts has
-- the assembled scripts. Parts are code without functions, since a closure costs more per call than
-- the lines that it saves. Only rare paths create functions. The constant page bounds the work of
-- one call, however many grants a limiter has.
--
-- KEYS: 1 configuration   2 value   3 permits   4 this client's value   5 this client's permits.
-- acquire, refund and available get the first three if the client expects the limiter to be
-- OVERALL.
-- ARGV[1], of every script that needs the time: Unix milliseconds, or '' for the server's clock.
-- ARGV[6], of every script that replies {1, cursor}: the cursor, or absent.
--
-- Replies of the scripts that start with the part limiter:
--   {1, cursor}             the work exceeds one call: call again with cursor as ARGV[6]
--   {2}                     the limiter is not initialised
--   {3, key, field, text}   text is not valid in KEYS[key] or its field; nothing was taken or set
--   {6}                     the limiter is PER_CLIENT: call again with all keys
--   and the reply that the last part documents
--
-- Writes. If an ACL user may not run a command, the script fails at that command. So all reads
-- precede the first write, and a script can stop after any write. It writes the value first. In the
-- permits set, it adds members before it removes others, so that the set never has fewer permits
-- than are taken. If a write of the set is refused, the script deletes the value. The free permits
-- are then counted from the set, and are right again when its grants have expired.
--
-- Numbers. To convert a number to the text that Redis takes costs as much as a short command. So
-- constants are texts, and the texts of Redis and of the client stay texts where they can.
--
-- Expiry. State never expires before its configuration, since a missing set means that nothing is
-- taken. If the configuration has no TTL, a set that a script writes has no TTL, and neither has
-- its value. If the configuration has a TTL, the state's TTL is a millisecond longer. The reason: a
-- key exists until the end of its last millisecond, but a PEXPIRE in that millisecond deletes it.
-- The client's own keys of a PER_CLIENT limiter have a TTL that is longer by slack: an interval and
-- a day. Other clients can extend the limiter, and cannot name these keys.

--@ names  out: call find match page
-- Locals, since every access to a global costs a lookup.
local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
local call, find, match, page = redis.call, string.find, string.match, 256

--@ count  out: count
-- count returns the permits of a grant, or nil if the member is too short.
local function count(member)
  local a, b, c, d = string.byte(member, -4, -1)
  return d and a + b * 256 + c * 65536 + d * 16777216
end

--@ resized  out: resized
-- resized returns the member of a grant with another number of permits.
local function resized(member, n)
  return string.sub(member, 1, -5) .. string.char(n % 256, math.floor(n / 256) % 256,
    math.floor(n / 65536) % 256, math.floor(n / 16777216))
end

--@ hint  out: hint limit
-- The hint is the rate and the interval that the client last saw, for example '10 60000', or '' if
-- drift is to be counted. limit is ARGV[1] less that interval, as a text that Redis takes.
local hint, limit = ARGV[3], ARGV[4]

--@ unhinted  out: hint limit
local hint, limit

--@ limiter  in: hint limit  out: hinted interval keepAlive limit now permitsAt permitsKey rate
--+ valueAt valueKey
-- Reads the configuration. Sets rate, interval, keepAlive, now and:
--   limit     Grants with scores up to limit have expired.
--   valueKey, permitsKey
--             The keys of the rate type; valueAt and permitsAt are their indexes in KEYS.
--   hinted    The hint holds.
-- interval and now are texts, since most calls do not need their numbers. Arithmetic converts a
-- text; a comparison does not.
local config = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
local rate, interval, kind, keepAlive = config[1], config[2], config[3], config[4] or '0'
if not (rate and interval and kind) then
  return {2}
end
local valueAt, permitsAt = 2, 3
if kind == '1' then
  if not KEYS[4] then
    return {6}
  end
  valueAt, permitsAt = 4, 5
elseif kind ~= '0' then
  return {3, 1, 'type', kind}
end
local valueKey, permitsKey = KEYS[valueAt], KEYS[permitsAt]
local hinted = hint and hint ~= '' and hint == rate .. ' ' .. interval
if not (hinted or #rate < 16 and match(rate, '^%d+$') and match(interval, '^%d+$'))
    or not (keepAlive == '0' or #keepAlive < 16 and match(keepAlive, '^[1-9]%d*$')) then
  -- From 2^53 on, the number can differ from the text.
  if not find(rate, '^%d+$') or (rate + 0 >= 9007199254740992 and rate ~= '9007199254740992') then
    return {3, 1, 'rate', rate}
  end
  if not find(interval, '^%d+$') then
    return {3, 1, 'interval', interval}
  end
  -- PEXPIRE refuses leading zeros: it would fail after permits are taken.
  if keepAlive ~= '0' and not find(keepAlive, '^[1-9]%d*$') or #keepAlive > 15 then
    return {3, 1, 'keepAliveTime', keepAlive}
  end
end
-- + 0 converts a text in half of tonumber's time.
rate = rate + 0
local now = ARGV[1]
if now == '' then
  local time = call('TIME')
  now = time[1] .. string.format('%03d', math.floor(time[2] / 1000))
end
if not hinted or not limit or limit == '' then
  limit = now - interval
end

--@ wanted  out: total totalText
-- Reads the permits of all requests: sets total, and totalText, its text.
local totalText, total = ARGV[5], 1
if totalText and totalText ~= '' then
  total = totalText + 0
else
  totalText = '1'
end

--@ refuse  in: hinted interval keepAlive now rate total totalText valueAt
-- Replies at once if every request exceeds the rate. Such a call changes nothing and does not
-- extend a TTL. Arguments and reply are those of acquire.
if total > rate then
  local answers, runs = {}, ARGV[8]
  if not runs or runs == '' then
    runs = totalText .. '*1'
  end
  for upTo, text, times in string.gmatch(runs, '(~?)(%d+)%*(%d+)') do
    if upTo == '~' or tonumber(text) <= rate then
      answers = nil
      break
    end
    answers[#answers + 1] = string.rep('x', tonumber(times))
  end
  if answers then
    return {valueAt == 2 and 0 or 5, 0, rate, math.min(interval, 9007199254740992), 0, now + 0, table.concat(answers),
      not hinted and 'due' or ARGV[9] or '', keepAlive + 0}
  end
end

--@ window  in: keepAlive limit permitsKey  out: expired setTTL ttl
-- Reads the permits set's sizes and TTLs. Sets ttl (of a configuration without keepAliveTime),
-- setTTL (-2: no set) and expired (the number of expired grants).
local ttl = keepAlive == '0' and call('PTTL', KEYS[1])
local expired, setTTL = call('ZCOUNT', permitsKey, '-inf', limit), call('PTTL', permitsKey)

--@ value  in: valueAt valueKey  out: stored value
-- Reads the value. Sets stored, its text, and value, its number.
local stored = call('GET', valueKey)
if stored and stored ~= '0' and not (#stored < 18 and match(stored, '^%-?[1-9]%d*$')) then
  return {3, valueAt, '', stored}
end
local value = stored and stored + 0

--@ reclaim  in: expired permitsAt permitsKey rate setTTL stored ttl value  out: added dirty drop
--+ grants more removed score spent value wipe
-- Adds expired grants to value, the free permits. Only reads. Sets:
--   dirty   value is to be written.
--   wipe    All grants have expired.
--   drop    So many of the oldest grants are in value and are to be removed.
--   more    Other expired grants remain.
--   grants  The size of the set, or nil if unknown.
--   spent   nil: acquire sets it if DECRBY is enough.
--   removed, added, score
--           nil: other members to remove, a member to add, and its score.
local spent = nil
local grants = setTTL == -2 and 0 or expired > 0 and call('ZCARD', permitsKey) or nil
local dirty, more, wipe, drop = not stored or setTTL ~= -1 and ttl == -1, false, false, 0
if expired == grants then
  -- No permit is taken, whatever the value is: all grants have expired, or the set was evicted.
  wipe = expired > 0
  if value ~= rate then
    value, dirty = rate, true
  end
else
  if expired > 0 then
    more, drop = expired > page, math.min(expired, page)
    local returned, sum = call('ZRANGE', permitsKey, '0', drop > 1 and drop - 1 or '0'), 0
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
    -- Only the value was lost: value = rate - grants. The count starts at the newest grant. So
    -- grants that expire meanwhile do not shift those already counted.
    if more then
      call('ZREMRANGEBYRANK', permitsKey, '0', drop > 1 and drop - 1 or '0')
      return {1, ''}
    end
    --@count
    local inside = (grants or call('ZCARD', permitsKey)) - expired
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
        return {3, permitsAt, 'member', members[i]}
      end
      sum = sum + n
    end
    if stop < inside then
      return {1, string.format('%d %d ', stop, sum) .. newest}
    end
    value = rate - sum
  end
end
local removed, added, score

--@ cap  in: dirty rate value  out: dirty value
if value > rate then
  value, dirty = rate, true
end

--@ cut  in: added count drop grants newest permitsAt removed resized rest score  out: added drop
--+ removed rest score
-- Takes rest permits off the oldest grants with scores up to newest. The table grants lists the
-- grants with their scores. Whole grants increase drop. One grant shrinks: removed gets its member,
-- added its new member, and score its score.
for i = 1, #grants, 2 do
  if rest == 0 or tonumber(grants[i + 1]) > newest then
    break
  end
  local n = count(grants[i])
  if not n then
    return {3, permitsAt, 'member', grants[i]}
  end
  if n > rest then
    removed, added, score, rest = {grants[i]}, resized(grants[i], n - rest), grants[i + 1], 0
  else
    drop, rest = drop + 1, rest - n
  end
end

--@ drift  in: added dirty drop grants hinted more now permitsAt permitsKey rate removed score
--+ stored value wipe  out: added counted cursor dirty drop grants removed score value
-- Corrects drift: value + permits in the set should be the rate. excess is the difference.
--   excess > 0, stored > rate: the rate was lowered. value = rate - permits in the set.
--   excess > 0: Redisson released permits. The oldest grants, of excess permits, are removed from
--               the set, and the stored value stays. Expired grants are the oldest of these, and
--               return as many permits less.
--   excess < 0: the rate was raised, or permits were lost. value = rate - permits in the set.
-- A set of at most a page is counted at once. A larger one is counted over several calls.
-- ARGV[9] the cursor of the count, or absent
-- Sets counted, for the reply:
--   ''       not counted.
--   'done'   counted.
--   'due'    The next call is to count.
--   'again'  The count is to start again later.
-- Or it is the cursor of the next call:
--   'low high members sum exact earlier'
--                   The grants with scores of low to high are counted. Their number is members,
--                   and they have sum permits. exact is n if other grants were added among them,
--                   otherwise y. earlier is the excess of the previous count.
--   'found excess'  A count found this excess, and the next one confirms it.
--   'cut permits newest'
--                   The count has ended. Grants of so many permits, with scores up to newest,
--                   remain to be removed. Until then the value is lower by as many, so that no
--                   other client removes grants for the same excess.
local counted, cursor = '', hinted and ARGV[9] or ''
if more then
  counted = not hinted and 'due' or cursor
elseif not hinted or value > rate or cursor ~= '' then
  local size, excess = wipe and 0 or grants or call('ZCARD', permitsKey), nil
  local rest, newest, returned = 0, math.huge, stored and value - stored
  if size - drop <= page then
    --@count
    counted, excess, grants = 'done', value - rate, size > drop and call('ZRANGE', permitsKey, drop, '-1') or {}
    for i = 1, #grants do
      excess = excess + (count(grants[i]) or 0) -- an invalid member is an error when it expires
    end
  elseif not stored then
    counted = 'done'
  elseif match(cursor, '^cut ') then
    local permits, score = match(cursor, '^cut (%d+) (%-?%d+)$')
    counted, rest, newest = 'again', permits + 0, score + 0
  elseif not hinted or cursor ~= '' then
    --@pages
  end
  if excess and excess ~= 0 then
    value, dirty = value - excess, true
    rest = excess > 0 and stored + 0 <= rate and excess or 0
  end
  if rest > 0 then
    --@count
    --@resized
    rest = math.max(0, rest - returned)
    value, dirty = value + rest, true
    grants = rest > 0 and call('ZRANGE', permitsKey, drop, drop + page - 1, 'WITHSCORES') or {}
    --@cut
    value = value - rest
    if rest > 0 and tonumber(grants[#grants]) <= newest then
      counted = string.format('cut %.0f %.0f', rest, math.min(newest, now))
    end
  end
  if value > rate then
    value, dirty = rate, true
  end
end

--@ pages  in: counted cursor excess permitsKey rate size stored  out: counted excess
-- Counts a page of the grants below low. If the grants above high are more than two pages, counts a
-- page of these too. Other calls do not change excess, so that the pages can be counted one by one.
-- A grant lowers the value and raises the set. An expired grant does the reverse. The last call
-- reads the value, the oldest page and the grants above high.
--
-- Clients with late clocks, refunds and releases change grants that are already counted. Then the
-- number of these grants differs. If there are fewer, the count starts again. If there are more,
-- sum is too low, and so is excess: it must not raise the value. If as many were added as removed,
-- the count does not notice it. If a counted grant shrinks, excess is too large.
--
-- So the value rises only if two counts agree. Grants are removed only for the smaller excess of
-- two counts, so that no grant in use leaves the set.
local low, high, members, sum, exact, earlier = match(cursor, '^(%S+) (%S+) (%d+) (%d+) ([yn]) (%-?%d+)$')
local complete, pages = true, {}
if low then
  local present = call('ZCOUNT', permitsKey, low, high)
  complete, exact = present >= members + 0, present > members + 0 and 'n' or exact
  members, sum = present, sum + 0
else
  high = call('ZREVRANGE', permitsKey, page, page, 'WITHSCORES')[2]
  low, members, sum, exact, earlier = '(' .. high, 0, 0, 'y', match(cursor, '^found (%-?%d+)$') or '0'
end
local newer = call('ZCOUNT', permitsKey, '(' .. high, '+inf')
-- All grants of a score are counted in one call, so that the count notices a grant that is added
-- later.
if newer > page * 2 then
  local top = call('ZREVRANGE', permitsKey, newer - page, newer - page, 'WITHSCORES')[2]
  local n = call('ZCOUNT', permitsKey, '(' .. high, top)
  if n <= page * 2 then
    pages[1] = call('ZREVRANGE', permitsKey, newer - n, newer - 1)
    high, members, newer = top, members + n, newer - n
  end
end
local first = newer + members
local bottom = call('ZREVRANGE', permitsKey, first + page - 1, first + page - 1, 'WITHSCORES')[2]
local last = not bottom and newer <= page * 2
if bottom or last then
  local n = bottom and call('ZCOUNT', permitsKey, bottom, high) - members or size - first
  low, members, complete = bottom or '-inf', members + n, complete and n <= page * 2
  pages[#pages + 1] = complete and n > 0 and call('ZREVRANGE', permitsKey, first, first + n - 1) or nil
end
if last and newer > 0 then
  pages[#pages + 1] = call('ZREVRANGE', permitsKey, '0', newer - 1)
end
local byte = string.byte
for _, list in ipairs(pages) do
  for i = 1, #list do
    local a, b, c, d = byte(list[i], -4, -1)
    sum = sum + (d and a + b * 256 + c * 65536 + d * 16777216 or 0)
  end
end
if not complete then
  counted = 'again'
elseif last then
  excess, earlier = stored + sum - rate, earlier + 0
  counted = excess > 0 and 'again' or 'done'
  if excess > 0 and stored + 0 <= rate and earlier > 0 then
    excess = math.min(excess, earlier)
  elseif excess > 0 and stored + 0 <= rate or excess < 0 and exact == 'y' and excess ~= earlier then
    counted, excess = string.format('found %.0f', excess), nil
  elseif excess < 0 and exact == 'n' then
    excess = nil
  end
else
  counted = string.format('%s %s %d %.0f %s %s', low, high, members, sum, exact, earlier)
end

--@ acquire  in: dirty more now rate spent total totalText value  out: above answers awaited dirty
--+ flags granted grantedAt part spent value
-- Decides requests for permits, in their order.
-- ARGV[2] the member of a grant of all of them.
-- ARGV[3] the hint: if it does not hold, or is '', drift is counted and the reply is long.
-- ARGV[4] limit; absent or '' for the server's clock.
-- ARGV[5] the permits of all requests; absent or '' for 1.
-- ARGV[7] letters:
--   d  reports rate and reset even if all is granted.
--   w  reports waits.
--   o  keeps the order: behind a denied request none is granted.
--   a  reports all waits.
-- ARGV[8] the requests, run-length encoded: '1*200 3*1'; absent or '' for a single one. A request
--         for up to 5 permits is '~5*1': it takes what is free.
-- Replies, without letters, the permits left if all were granted and -1 if none was; else
--   {0, left, rate, interval, reset, now, answers, counted, keepAlive, wait, permits, wait, permits,
--   ...}.
--   The first element is 5 if the limiter is PER_CLIENT.
-- interval: of the rate, milliseconds, at most 2^53.
-- reset: milliseconds until the newest grant expires, 0 without d.
-- now: Unix milliseconds; waits and reset count from now.
-- answers: a letter for each request: g granted, n denied, x above the rate, p granted a part; or
--         '*', all granted. At most one request is granted a part, since nothing is free then. Its
--         permits follow the letters: 'gpn=3'.
-- counted: see drift.
-- keepAlive: of the configuration, milliseconds, 0 for none.
-- wait, permits: so many permits return after so many milliseconds. There are as many pairs as the
--         denied requests need (all pairs for o and a), at most a page. See waits for leases.
local granted, flags, grantedAt = 0, ARGV[7] or '', now
local answers, awaited, above, part
if total <= value then
  granted = total
elseif more then
  flags = nil
elseif ARGV[8] or total > rate then
  answers = {}
  local blocked, ordered, runs = false, find(flags, 'o', 1, true), ARGV[8]
  if not runs or runs == '' then
    runs = totalText .. '*1'
  end
  for upTo, text, times in string.gmatch(runs, '(~?)(%d+)%*(%d+)') do
    local n, fitting = tonumber(text), 0
    times, upTo = tonumber(times), upTo == '~'
    if n > rate and not upTo then
      answers[#answers + 1] = string.rep('x', times)
      above = true
    else
      if not blocked and n <= value - granted then
        fitting = math.min(times, math.floor((value - granted) / n))
        granted = granted + fitting * n
        answers[#answers + 1] = string.rep('g', fitting)
      end
      if upTo and not blocked and fitting < times and granted < value then
        part, granted, fitting = value - granted, value, fitting + 1
        answers[#answers + 1] = 'p'
      end
      if fitting < times then
        answers[#answers + 1] = string.rep('n', times - fitting)
        awaited = math.max(awaited or 0, upTo and 1 or n)
        blocked = ordered
      end
    end
  end
  if awaited and (ordered or find(flags, 'a', 1, true)) then
    awaited = rate
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

--@ lease  in: flags granted grantedAt interval keepAlive now rate spent total ttl value
--+ out: granted grantedAt leased span spent value
-- Follows acquire. If all requests were granted and many permits are free, leases more of them. One
-- member has the whole grant, dated at the lease's end. So each permit stays taken until an
-- interval after its last possible use. A lease lasts at most a sixteenth of the interval. It takes
-- at most half of the free permits, and never the last eighth of the rate. If the limiter may
-- expire sooner than an interval after the lease, there is none.
-- ARGV[10] the permits
-- ARGV[11] milliseconds
local leased, span = 0, math.min(tonumber(ARGV[11]), math.floor(interval / 16))
local ends = ttl or tonumber(keepAlive)
if granted == total and flags and span > 0 and (ends < 0 or ends >= interval + span) then
  leased = math.min(tonumber(ARGV[10]), math.floor(value / 2), value - math.ceil(rate / 8), 4294967295 - granted)
  leased = math.max(0, leased)
  if leased > 0 then
    value, granted = value - leased, granted + leased
    spent, grantedAt = string.format('%d', granted), string.format('%d', now + span)
  end
end

--@ leased  in: interval leased now rate reply span value  out: reply
-- The reply of a call that leased permits:
--   {4, permits, milliseconds, rate, interval, free, time of the grant, reply of acquire}
if leased > 0 then
  reply = {4, leased, span, rate, math.min(interval, 9007199254740992), value, now + span, reply}
end

--@ store  in: dirty drop permitsKey spent value valueKey wipe  out: failed
-- Writes value, and removes the expired grants that it includes. Sets failed, an error if a write
-- of the set was refused. Then the parts up to checked write no more.
if dirty then
  call('SET', valueKey, string.format('%d', value))
elseif spent then
  call('DECRBY', valueKey, spent)
end
local failed
if wipe then
  failed = redis.pcall('UNLINK', permitsKey)
elseif drop > 0 then
  failed = redis.pcall('ZREMRANGEBYRANK', permitsKey, '0', drop > 1 and drop - 1 or '0')
end

--@ grant  in: failed granted grantedAt permitsKey total  out: failed
-- Adds the grant of acquire to the set. Redisson's member counts to 4294967295, and no call
-- requests more.
if granted > 0 and (not failed or type(failed) ~= 'table') then
  local member = ARGV[2]
  if granted ~= total then
    --@resized
    member = resized(member, granted)
  end
  failed = redis.pcall('ZADD', permitsKey, grantedAt, member)
end

--@ swap  in: added failed permitsKey removed score  out: failed
-- Removes the members of the list removed. Adds the member added with its score, if there is one.
if removed and type(failed) ~= 'table' then
  if added then
    failed = redis.pcall('ZADD', permitsKey, score, added)
  end
  if type(failed) ~= 'table' then
    failed = redis.pcall('ZREM', permitsKey, unpack(removed))
  end
end

--@ checked  in: failed valueKey
-- Ends the script if a write of the set was refused. The value expires instead of being deleted,
-- since the user may lack the right for DEL. The reply of a plain grant is 1, which is no error.
if failed and failed ~= 1 and type(failed) == 'table' then
  call('SET', valueKey, '0', 'PX', '1')
  return failed
end

--@ answer  in: above answers awaited counted flags granted interval keepAlive now part permitsKey rate total
--+ value valueAt  out: reply
-- Builds the reply of acquire.
local reply = value
if not flags then
  reply = {1, ''}
elseif granted == 0 and flags == '' and not above and counted == '' then
  reply = -1
elseif answers or flags ~= '' or counted ~= '' then
  reply = {valueAt == 2 and 0 or 5, value, rate, math.min(interval, 9007199254740992), 0, now + 0,
    answers and table.concat(answers) .. (part and '=' .. part or '') or granted < total and 'n' or '*', counted,
    keepAlive + 0}
  if find(flags, 'd', 1, true) then
    local newest = call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2]
    if newest then
      reply[5] = math.min(math.max(0, tonumber(newest) + interval - now), 9007199254740992)
    end
  end
  if awaited and find(flags, 'w', 1, true) then
    local need = awaited - value
    --@waits
  end
end

--@ waits  in: interval need now permitsKey reply  out: need reply
-- Appends to reply when need permits return, as pairs of a time and permits. The unused permits of a
-- lease return when it ends. Their time is 50 ms later, since the call that returns them takes time,
-- and their number is negative. A lease is a grant with a score in the future, and with the mark of
-- client.go in its member. Without the mark it is a grant of a client whose clock is ahead.
--@count
local last, lastLeased, nowNumber = nil, nil, now + 0
local leases = call('ZRANGEBYSCORE', permitsKey, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', '0', page)
local grants = call('ZRANGE', permitsKey, '0', need > 1 and page - 1 or '0', 'WITHSCORES')
-- For one permit the oldest grant suffices, unless it has none: Redisson grants requests for 0.
if need == 1 and string.sub(grants[1] or '', -4) == '\0\0\0\0' then
  grants = call('ZRANGE', permitsKey, '0', page - 1, 'WITHSCORES')
end
local at, leaseAt = 1, 1
while need > 0 do
  while grants[at] and tonumber(grants[at + 1]) > nowNumber and string.sub(grants[at], 2, 5) == 'LEAS' do
    at = at + 2
  end
  while leases[leaseAt] and string.sub(leases[leaseAt], 2, 5) ~= 'LEAS' do
    leaseAt = leaseAt + 2
  end
  local wait, lease = grants[at] and tonumber(grants[at + 1]), leases[leaseAt] and tonumber(leases[leaseAt + 1])
  wait = wait and wait + interval - now
  lease = lease and lease - now + math.min(50, interval)
  local n, leased
  if lease and (not wait or lease < wait) then
    n, wait, leaseAt, leased = count(leases[leaseAt]), lease, leaseAt + 2, true
  elseif wait then
    n, at = count(grants[at]), at + 2
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

--@ release  in: added dirty drop more now permitsAt permitsKey rate removed score value wipe
--+ out: added dirty drop removed reply score value wipe
-- Returns permits: the oldest grants shrink by as much, so that no permit returns twice. Leased
-- permits, whose score is in the future, are returned last: first those of this client, then those
-- of others.
-- ARGV[2] the permits
-- ARGV[3] the ID of this client's leases
-- Replies {0, rest}: another call has to return rest permits, usually 0
local n, reply = tonumber(ARGV[2]), {0, 0}
if value + n >= rate then
  value, wipe = rate, true
elseif more then
  reply = {1, ''}
else
  --@count
  --@resized
  local rest, newest, grants = n, now + 0, call('ZRANGE', permitsKey, drop, drop + page - 1, 'WITHSCORES')
  --@cut
  for _, own in ipairs({true, false}) do
    for i = 1, #grants, 2 do
      if rest > 0 and tonumber(grants[i + 1]) > newest and (string.sub(grants[i], 2, 9) == ARGV[3]) == own then
        local n = count(grants[i])
        if not n then
          return {3, permitsAt, 'member', grants[i]}
        end
        removed = removed or {}
        removed[#removed + 1] = grants[i]
        if n > rest then
          added, score = resized(grants[i], n - rest), grants[i + 1]
        end
        rest = math.max(0, rest - n)
      end
    end
  end
  if rest > 0 and #grants == page * 2 then
    -- The page may have no permits: Redisson grants requests for 0.
    reply = rest < n and {0, rest} or {1, ''}
    n = n - rest
  end
  value = value + n
end
dirty = true

--@ refund  in: added dirty drop limit permitsKey rate removed score value  out: added dirty removed
--+ reply score value
-- Returns permits of one grant, which are not needed. If the grant is not in the set, it has
-- expired, was released, or was lost in a failover. Its permits are free then, and all taken
-- permits belong to others. If a refund of other callers of the grant has shrunk it, or another
-- client's release, it has the same random bytes. Without a score, only a grant that a release has
-- shrunk is found: it is among the oldest.
-- ARGV[2] the permits
-- ARGV[3] the member of the grant
-- ARGV[4] the member of the permits that stay taken, or ''
-- ARGV[5] the score of the grant, or ''
local reply, n = {0, 0}, tonumber(ARGV[2])
local member = ARGV[3]
added, score = ARGV[4] ~= '' and ARGV[4] or nil, call('ZSCORE', permitsKey, member)
if not score then
  --@count
  --@resized
  local random, grants = string.sub(member, 1, 17), nil
  if ARGV[5] ~= '' then
    grants = call('ZRANGEBYSCORE', permitsKey, ARGV[5], ARGV[5], 'WITHSCORES', 'LIMIT', '0', page)
  else
    grants = call('ZRANGE', permitsKey, drop, drop + page - 1, 'WITHSCORES')
  end
  for i = 1, #grants, 2 do
    if string.sub(grants[i], 1, 17) == random and #grants[i] == 21 then
      local held = count(grants[i])
      member, score, added = grants[i], grants[i + 1], nil
      if held > n then
        added = resized(member, held - n)
      else
        n = held
      end
      break
    end
  end
end
if score and tonumber(score) > limit then
  removed, value, dirty = {member}, math.min(rate, value + n), true
end

--@ expiry  in: interval keepAlive permitsKey reply setTTL ttl valueAt valueKey
-- Gives the state the TTL of the configuration: keepAliveTime from now, or the expiry that was set.
-- The TTL of the client's own keys is longer by slack.
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

--@ available  in: limit permitsAt permitsKey rate value
-- Replies {0, free}. Only reads. If grants have expired or the value is lost, it counts a page. The
-- next call continues if the first grant of the count still exists.
local free = value
local first, final = 'ZRANGE', 'ZREVRANGE'
if not value then
  first, final = final, first
end
local begin = call(first, permitsKey, '0', '0', 'WITHSCORES')
if not begin[1] then
  return {0, rate}
end
local newest = value and call('ZRANGE', permitsKey, '-1', '-1', 'WITHSCORES')[2] or begin[2]
if tonumber(newest) <= limit then
  return {0, rate}
end
local skip, sum, mark = string.match(ARGV[6] or '', '^(%d+) (%d+) (.*)$')
if mark == begin[1] then
  skip, sum = tonumber(skip), tonumber(sum)
else
  skip, sum = 0, 0
end
--@count
local grants = call(first, permitsKey, skip, skip + page - 1, 'WITHSCORES')
local done = #grants < page * 2
for i = 1, #grants, 2 do
  -- Expired grants are added to a value; without a value, the others are taken off the rate.
  local expired = tonumber(grants[i + 1]) <= limit
  if expired ~= (value ~= false) then
    done = true
    break
  end
  local n = count(grants[i])
  if not n then
    return {3, permitsAt, 'member', grants[i]}
  end
  sum = sum + n
end
if not done then
  return {1, string.format('%d %d ', skip + page, sum) .. begin[1]}
end
free = value and value + sum or rate - sum
return {0, math.max(0, math.min(rate, free))}

--@ trysetrate
-- Sets the rate of a limiter that has none, or the fields that it lacks.
-- ARGV: rate, interval, type, keepAliveTime
-- Replies 1 if it set the type, 0 if not, or {3, ...}
local fields = {'rate', 'interval', 'type', 'keepAliveTime'}
local config = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
if config[1] and config[2] and config[3] then
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
if config[3] then
  return 0
end
if ARGV[4] ~= '0' then
  call('PEXPIRE', KEYS[1], ARGV[4])
end
return 1

--@ setrate  out: expired interval keepAlive permitsAt permitsKey reply setTTL ttl value valueAt valueKey
-- Sets the rate, whether the limiter has one or not.
-- ARGV[2] to ARGV[5]: rate, interval, type, keepAliveTime
-- ARGV[6] letters: e sets it only if the limiter exists, k keeps the grants
-- Replies 1 if it set the rate, 0 if not, or {3, ...}
local interval, keepAlive, ttl, setTTL = tonumber(ARGV[3]), ARGV[5], -1, 0
local keep = find(ARGV[6], 'k', 1, true)
local old = call('HMGET', KEYS[1], 'rate', 'type', 'keepAliveTime')
if find(ARGV[6], 'e', 1, true) and call('EXISTS', KEYS[1]) == 0 then
  return 0
end
-- The TTL of the old keepAliveTime would delete a limiter that no longer expires.
local stays = keepAlive == '0' and (tonumber(old[3] or '0') or 0) > 0
if keepAlive == '0' and not stays then
  ttl = call('PTTL', KEYS[1])
end
local valueAt, permitsAt = 2, 3
if ARGV[4] == '1' then
  valueAt, permitsAt = 4, 5
end
local valueKey, permitsKey = KEYS[valueAt], KEYS[permitsAt]
local value, expired
-- If the configuration was lost, the rest of the state still counts.
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
    --@count
    local grants, used = call('ZRANGE', permitsKey, '0', '-1', 'WITHSCORES'), 0
    expired = 0
    for i = 1, #grants, 2 do
      local n = count(grants[i])
      if not n then
        return {3, permitsAt, 'member', grants[i]}
      end
      if tonumber(grants[i + 1]) <= now - interval then
        expired = expired + 1
      else
        used = used + n
      end
    end
    -- Below 0 if more permits are taken than the new rate: they return before any permit is
    -- granted.
    value = rate - used
  elseif stored and tonumber(old[1]) then
    -- The grants are too many for one call. The old rate and value give the number of their
    -- permits. Later calls return those that have expired by the new interval.
    value = math.min(rate, tonumber(stored) + rate - tonumber(old[1]))
  end
end
-- Without a value, permits are counted from the set, for the old rate and for the new one. So the
-- writes can stop anywhere.
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
if expired and expired > 0 then
  call('ZREMRANGEBYRANK', permitsKey, '0', expired - 1)
end
if value then
  call('SET', valueKey, value)
end
local reply = 1

--@ slack  out: base interval slack ttl
-- Sets slack, the additional TTL of this client's own keys, and ttl, of the configuration. Sets
-- base: the keys of the limiter that the script leaves begin after KEYS[base].
local base = #KEYS - 5
local ttl = call('PTTL', KEYS[1])
local interval = tonumber(call('HMGET', KEYS[1], 'interval')[1] or '0') or 0
local slack = math.floor(math.max(0, math.min(interval, 1e15))) + 86400000

--@ each  in: slack ttl  out: reply ttl
-- Runs one command on every key: Redisson treats the five keys alike. If the command sets an
-- expiry, the state expires a millisecond later, and this client's own keys later by slack too.
-- With GT or LT, the reply does not count this client's own keys: the configuration decides.
-- ARGV: the command and its arguments after the key.
-- Replies the number of changed keys, or -2 if the server does not know the conditions.
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
-- Replies the Unix milliseconds at which the configuration expires, -1 if it has no TTL, -2 if it
-- does not exist.
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

--@ move  in: ttl  out: reply
-- Renames or copies a limiter with all its state. It deletes the old state of the new name, so that
-- the two cannot mix.
-- KEYS[6] to KEYS[10]: the keys of the new name
-- ARGV[1] RENAME or COPY, ARGV[2] 1 to replace a limiter of the new name
-- Replies 1 if it moved the limiter, 0 if the new name has a limiter that must stay, -1 if no
-- limiter exists, -2 if the server has no COPY
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
  -- In this direction and without REPLACE, COPY changes nothing, since KEYS[1] exists.
  local able = redis.pcall('COPY', KEYS[6], KEYS[1])
  if type(able) == 'table' then
    return string.find(able.err, 'nknown') and -2 or able
  end
end
-- Without values, permits are counted from the sets, even if RENAME is refused.
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

--@ outlive  in: base reply slack ttl
-- If state of this client has a TTL, extends it so that the state does not expire before the
-- configuration.
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
