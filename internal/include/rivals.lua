-- Reads the Clients whose callers wait for the same limiter, and by how much to correct the time of the call.
-- share.lua decides by them what the calling Client may take, and record.lua writes what it got.
--
-- The key in waiters is a sorted set. Each Client has two members, named by the ID of its queue:
--   "<id>"   Its score is got + (1023 - wanted) / 1024. Got counts the permits that the waiters of the Client got: only
--            the differences between Clients matter. Wanted is the permits that they still want, at most 1023, and for
--            a window an estimate. So of two that got as much, the one that was denied comes before the one that was
--            just served. A Client is absent if its call is overdue. Its score is 1e14 and what it got then.
--   "<id>!"  The time by which the next call of the Client is due, in Unix milliseconds of the server. The fraction
--            is the number of milliseconds by which calls of the Client may be late, in units of 1/2048. Of an absent
--            one it is 1e13 and the time of a call that found it overdue, or by which the call of a new one is due.
-- The set has up to three more:
--   clock    The most advanced clock: 4e15, and 65536 times <ahead>, and <last>. By <ahead> tenths of a millisecond it
--            is ahead of the server's. A Client last had it at <last> tenths of a second, modulo 65536.
--   "all"    Only in Redisson's layout: see script.lua.
--   "held"   Only of an InFlight: 3e15 and the time of the last hold, see the section hold in inflight.lua.
--
-- What a Client got is below 2^39, and all other scores are above. So the Clients that are not absent come first, in the
-- order in which they are served, and the rank of one is the number of those before it.
--
-- Clients that are overdue become absent, and the rival is the first of the others. An absent Client keeps its score for
-- three seconds after that time: one whose calls are late, beside much load, makes up for it. While there are absent
-- Clients, one without a rival counts what it gets for them: others is true. So it is if the clock of another Client is
-- ahead by more than calls differ.
--
-- The name of clock is longer than 64 bytes. Redis keeps a small set with shorter members as a list, in which each
-- command reads the members one after another.
--
-- Without rights for the key, or if it has another type, the Client counts as the only one. It may have the rights of
-- some commands only, such as those of its policy. Then shares are less equal, and no call fails.
--
-- All waiters are dated by the most advanced clock. Otherwise a bucket that a Client has dated grants nothing to
-- those behind until their clocks have caught up. When no Client has had that clock for eight seconds, it goes half
-- as fast, until it is no longer ahead. If it ended at once, waiters would get nothing for as long as it was ahead. If
-- it stayed, callers that do not wait, and Redisson's, would get nothing while anyone waits. A queue asks each five
-- seconds at the latest.
--
-- The numbers:
--   100, 65536, 50000   The units of the score of clock, and half of a tenth of a second, in microseconds.
--   5000                So much may a call take longer than another one of the same Client, in microseconds.
--   6e12                Larger differences, of 69 days, do not fit into the score. A Client
--                       with such a clock is dated by it, and no other is.
--   8000                No call is due later. If one is, the clock of Redis has gone back, and the Client is absent.
--   549755813888        2^39.
--   16                  A call marks at most 16 Clients that are overdue, which bounds its time. If it has marked one
--                       or has no rival, it removes those that are absent for long: see gone.lua.
--
-- Now is in microseconds.
-- Needs: id now waiters. Sets: ahead clock isFirst least moved now others rival server t.
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
  --@include gone
end
