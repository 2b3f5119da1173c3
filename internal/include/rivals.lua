-- Reads the Clients whose callers wait for the same limiter, and whether the calling Client has rivals: others of
-- them. share.lua decides by them what the Client may take, and shared.lua writes what it got.
--
-- The key in waiters is a sorted set. Each Client has two members, named by the ID of its queue:
--   "<id>"   A score from 0 on. Its whole part counts the permits that the waiters of the Client got: only the
--            differences between Clients matter. Its fraction is the number of permits that they still want, in
--            units of 1/1024: of a window an estimate. 1023 stands for 1023 and more.
--   "<id>!"  A score below 0: minus the time by which the next call of the Client is due. Its whole part is the
--            time in Unix milliseconds of the server. Its fraction is the number of milliseconds by which
--            calls of the Client may be late, in units of 1/2048: that number is below 2048.
-- A Client is absent if its call is overdue. Its "<id>" has the score -1e14 less what it got, without a fraction.
--
-- The set has one or two more members:
--   clock    The most advanced clock. Its score is -4e15 less 65536 times <ahead>, less <last>, so it is below 0.
--            Ahead is by how much it is ahead of the server's, in tenths of a millisecond. Last is when a Client
--            last had it, in tenths of a second, modulo 65536.
--   "all"    Only in Redisson's layout: see script.lua.
--   "held"   Only of an InFlight: minus the time of the last hold, see the section hold in inflight.lua.
-- So a range of scores from 0 on has the Clients alone that are not absent, and the one that got least is the first.
--
-- The name of clock is longer than 64 bytes. Redis keeps a small set with shorter members as a list, in which each
-- command reads the members one after another.
--
-- Without rights for the key, or if it has another type, the Client counts as the only one.
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
--   7e12                Larger differences would not fit into the score.
--
-- Now is in microseconds.
-- Needs: id now waiters. Sets: ahead clock first moved now others rival server t.
local clock = 'the most advanced clock of the Clients whose callers wait for the limiter'
local t = redis.pcall('TIME')
local first = t[1] and redis.pcall('ZRANGEBYSCORE', waiters, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 2) or {}
local rival, server, ahead, moved = first[1] ~= id and first[1] or first[3], now, nil, 0
if t[1] then
  server = t[1] * 1000000 + t[2]
  local latest, tenth = tonumber(redis.pcall('ZSCORE', waiters, clock)), floor(server / 100000) % 65536
  local offset = max(-7e12, min(now - server, 7e12))
  local line = offset
  if latest then
    local score = -4e15 - latest
    line = floor(score / 65536) * 100 - max(0, (tenth - score) % 65536 - 80) * 50000
  end
  if offset >= line - 5000 then
    ahead = 4e15 + ceil(max(offset, line) / 100) * 65536 + tenth
    ahead = ahead ~= -(latest or 0) and ahead -- else it is as it was
  end
  moved = max(0, line - offset)
  now = now + moved
end
t = floor(server / 1000)
local others = rival or moved > 0
