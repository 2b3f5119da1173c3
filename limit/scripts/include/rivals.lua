-- Reads the Clients whose callers wait for the same limiter. KEYS[@waiters] is a sorted set:
--   "<id>"   Its score is the permits that the waiters of a Client got. Only differences count.
--   "<id>!"  Minus the time by which its next call is due, Unix milliseconds of the server, and the 2048th part
--            of the milliseconds by which its calls may be late.
--   "clock"  Minus the microseconds by which the clock that is ahead of the others is ahead of the server's,
--            and clockBase.
-- Without rights for the key, or if it has another type, the Client counts as the only one.
--
-- All waiters are dated by the clock that is ahead. Otherwise a bucket that a Client has dated grants nothing
-- to those behind until their clocks have caught up.
-- Sets: ahead first id late lead moved now millis rest rival t waiters.
local id, late, rest, lead = ARGV[@last + 6], ARGV[@last + 7] + 0, ARGV[@last + 8] + 0, ARGV[@last + 9] + 0
local waiters = KEYS[@waiters]
local first = redis.pcall('ZRANGEBYSCORE', waiters, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 2)
local rival, t, ahead, moved = first[1] ~= id and first[1] or first[3], call('TIME'), nil, 0
local server = t[1] * 1000000 + t[2]
t = floor(server / 1000)
if rival then
  local latest = call('ZSCORE', waiters, 'clock')
  moved = latest and max(0, -latest - 4e15 + server - now) or 0
  now = now + moved
  millis, ahead = floor(now / 1000), moved == 0 and 4e15 + now - server
end
