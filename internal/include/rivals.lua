-- Reads the Clients whose callers wait for the same limiter, and whether the calling Client has rivals: others of
-- them. share.lua decides by them what the Client may take, and shared.lua writes what it got.
--
-- The key in waiters is a sorted set. Each Client has two members, named by the ID of its queue:
--   "<id>"   A score from 0 on. Its whole part counts the permits that the waiters of the Client got: only the
--            differences between Clients matter. Its fraction is the number of permits that they still want, in
--            units of 1/1024. 1023 stands for 1023 and more.
--   "<id>!"  A score below 0: minus the time by which the next call of the Client is due. Its whole part is the
--            time in Unix milliseconds of the server. Its fraction is the number of milliseconds by which
--            calls of the Client may be late, in units of 1/2048: that number is below 2048.
-- A Client is absent if its call is overdue. Its "<id>" has the score -1e14 less what it got, without a fraction.
--
-- The set has one or two more members:
--   clock    Its score is -4e15 less the microseconds by which the most advanced clock is ahead of the server's.
--            No such difference is as large, so the score is below 0.
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
-- those behind until their clocks have caught up.
-- Now is in microseconds.
-- Needs: id now waiters. Sets: ahead clock first moved now rival server t.
local clock = 'the most advanced clock of the Clients whose callers wait for the limiter'
local t = redis.pcall('TIME')
local first = t[1] and redis.pcall('ZRANGEBYSCORE', waiters, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 2) or {}
local rival, server, ahead, moved = first[1] ~= id and first[1] or first[3], now, nil, 0
if t[1] then
  server = t[1] * 1000000 + t[2]
end
t = floor(server / 1000)
if rival then
  local latest = call('ZSCORE', waiters, clock)
  moved = latest and max(0, -latest - 4e15 + server - now) or 0
  now = now + moved
  ahead = moved == 0 and 4e15 + now - server
end
