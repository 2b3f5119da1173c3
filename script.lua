-- Takes permits of a limiter in Redisson's layout: the script of every call that takes permits.
--
-- It reads from top to bottom. A line "--@include name" takes in internal/include/name.lua in its
-- place, whose comment says what it needs and sets. Includes are lines, not functions: a closure
-- costs more per call than the lines that it saves. Only rare paths create functions.
-- testdata/scripts has the scripts as Redis runs them. A line "--@waiting line" is a line or an include of
-- the script for callers that wait (wait.lua there), which shares permits with the waiters of other Clients.
-- It is in no other script.
--
-- KEYS: 1 configuration   2 value   3 permits   4 this client's value   5 this client's permits.
--       Only the first three if the client expects the limiter to be OVERALL. For callers that wait, 4 is
--       the key of the waiters then, which internal/include/rivals.lua describes. A member all has 2e15 and the
--       permits that waiters of all Clients got.
-- ARGV: 1  Unix milliseconds, or '' for the server's clock.
--       2  the member of a grant of all requests.
--       3  the hint: the rate and the interval that the client last saw, as '10 60000'. If it is ''
--          or does not hold, the reply is long.
--       4  ARGV[1] less the interval of the hint, or '' for the server's clock. A text of the client
--          costs less than a conversion here. Without the texts 4 and 5, a grant takes 0.95 of the
--          time of Redisson's script. With them it takes 0.82.
--       5  the permits of all requests, or '' for 1.
--       6  the cursor of the reply before, or ''.
--       7  flags: d  reply the rate and reset even if all is granted.
--                 w  reply waits.
--                 o  keep the order: behind a denied request none is granted.
--                 a  reply all waits.
--       8  the requests, run-length encoded: '1*200 3*1', or '' for one. A request for up to 5 permits
--          is '~5*1': it takes what is free.
--       9  the permits to prefetch, or absent for no prefetch
--       10 the longest duration of the prefetch, milliseconds.
--       Only for callers that wait, with 0 for no prefetch:
--       11 the ID of the queue.
--       12 the milliseconds by which its calls may be late.
--       13 the permits of its waiters that are not in the call.
--       14 the part of the intervals in which waiters are late, so that other programs have a turn.
--       15 how late they are, milliseconds.
--       16 the end of such a turn, Unix milliseconds: waiters get nothing before. 0 for none.
-- Arguments at the end may be absent instead of ''.
--
-- Replies without flags: the permits left if all were granted, and -1 if none was. Others:
--   {DONE, left, rate, interval, reset, now, answers, counted, keepAlive, wait, permits, wait, ...}.
--       For callers that wait, the last element is a list:
--         1 if other Clients have waiters.
--         for how long what is free is held for others, microseconds as the next three.
--         by how much their calls may be late.
--         how much later than by the waits to ask, since other Clients come first.
--         how much later than its time the call was dated.
--         how much later to ask, since other programs have a turn, milliseconds.
--         by how much the time of the call is ahead of the server's, milliseconds.
--         the permits that waiters of all Clients got.
--   {DONE_OWN, ...}         likewise, of a PER_CLIENT limiter.
--   {PREFETCHED, permits, milliseconds, rate, interval, free, time of the grant, reply without it}.
--   {AGAIN, cursor}         the work exceeds one call: call again with the cursor as ARGV[6].
--   {NO_RATE}               the limiter is not initialised.
--   {CORRUPT, key, field, text}
--                           text is not valid in KEYS[key] or its field; nothing was taken or set.
--   {NEEDS_KEYS}            the limiter is PER_CLIENT: call again with all keys
-- interval: of the rate, milliseconds, at most 2^53.
-- reset: milliseconds until the newest grant expires, 0 without d.
-- now: Unix milliseconds; waits and reset count from now.
-- answers: those of internal/include/decide.lua, as 'gpn 3'; or '*', all granted.
-- counted: 1 if the value was missing and was counted from the set, so that recount.lua is not needed;
--   otherwise 0.
-- keepAlive: of the configuration, milliseconds, 0 for none.
-- wait, permits: so many permits return after so many milliseconds. There are as many pairs as the
--   denied requests need (all pairs for o and a), at most a page. See waits for prefetches.
--
-- Commands: a denial without flags runs HMGET, PTTL, ZCOUNT, PTTL and GET, and a grant DECRBY and ZADD
-- besides. A keepAliveTime replaces the first PTTL by three PEXPIRE, an expiry that was set adds two.
-- The server's clock adds TIME, d and w add up to three reads. Expired grants add ZCARD, ZRANGE, SET
-- and ZREMRANGEBYRANK.
--
-- Writes, here and in the other scripts. If an ACL user may not run a command, the script fails at
-- that command. So all reads precede the first write, and a script can stop after any write. It
-- writes the value first. In the permits set, it adds members before it removes others, so that the
-- set never has fewer permits than are taken. If a write of the set is refused, the script deletes
-- the value. The free permits are then counted from the set, and are right again when its grants have
-- expired.
--
-- Expiry. State never expires before its configuration, since a missing set means that nothing is
-- taken. If the configuration has no TTL, a set that a script writes has no TTL, and neither has its
-- value. If the configuration has a TTL, the state's TTL is a millisecond longer. The reason: in
-- its last millisecond a key has a PTTL of 0, and a PEXPIRE of 0 deletes another key at once. The
-- client's own keys of a PER_CLIENT limiter have a TTL that is longer by slack: an interval and a
-- day. Other clients can extend the limiter, and cannot name these keys.
--@include names
--@waiting include numbers
local hint, ended, totalText, flags, runs = ARGV[3], ARGV[4], ARGV[5], ARGV[7] or '', ARGV[8]
--@include limiter
--@waiting local waiters, id, late, rest = KEYS[4], ARGV[11], ARGV[12] + 0, ARGV[13] + 0
--@waiting local lead, permit = max(1, min(floor(rate * 250 / interval), 4294967295)), min(250, interval / rate)
local total = 1
if totalText and totalText ~= '' then
  total = totalText + 0
else
  totalText = '1'
end
if total > rate and (not runs or runs == '') then
  runs = totalText .. '*1'
end
--@waiting now = now * 1000
--@waiting include rivals
--@waiting -- A Client that is behind would lose each permit to other programs, whose clocks are not.
--@waiting if server - now > 0 and server - now < 100000 then
--@waiting   moved = moved + server - now
--@waiting   now = server
--@waiting end
--@waiting now = string.format('%d', floor(now / 1000))
--@waiting ended = now - interval
--@include window
--@include value

-- If every request exceeds the rate, the call changes nothing and does not extend a TTL.
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
--@include reclaim
--@include cap
local credit = 9007199254740992
--@waiting local free, holds, reach = value, true, 1
--@waiting include share
--@waiting if now + 0 < ARGV[16] + 0 then
--@waiting   credit, held = -1, ARGV[16] - now
--@waiting end

-- Decides the requests.
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
  --@include decide
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

-- If all requests were granted and many permits are free, prefetches more of them. One member has the whole
-- grant, dated at the prefetch's end. So each permit stays taken until an interval after its last possible use.
-- A prefetch lasts at most a sixteenth of the interval. It takes at most half of the free permits, and never
-- the last eighth of the rate. If the limiter may expire sooner than an interval after it, there is none.
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
--@include store
--@include grant
--@include checked

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
    --@include waits
  end
  --@waiting local next, batch, window, ends, drips = 0, rate, interval + 0, 0, false
  --@waiting local need, pair = (missed or 1) - value, 10
  --@waiting while need > 0 and reply[pair] do
  --@waiting   next, need, pair = max(next, reply[pair] * 1000), need - math.abs(reply[pair + 1]), pair + 2
  --@waiting end
  --@waiting -- The fractions of multiples of the golden ratio are evenly spread, as in forecast.go.
  --@waiting local turn, number = 0, floor((now + next / 1000) / interval) * 1.6180339887498949
  --@waiting if next > 0 and fmod(number, 1) < ARGV[14] + 0 then
  --@waiting   turn = ARGV[15] + 0
  --@waiting   next = next + turn * 1000
  --@waiting end
  --@waiting include record
  --@waiting local all = (tonumber(redis.pcall('ZSCORE', waiters, 'all')) or 2e15) + granted
  --@waiting if granted > 0 then
  --@waiting   redis.pcall('ZADD', waiters, all, 'all')
  --@waiting end
  --@waiting all = others and all == 2e15 and -1 or all - 2e15
  --@waiting reply[#reply + 1] = {others and 1 or 0, held * 1000, slow, lag * 1000, moved, turn, now - t, all}
end
if prefetched > 0 then
  reply = {PREFETCHED, prefetched, span, rate, math.min(interval, 9007199254740992), value, now + span, reply}
end
--@include expiry
return reply
