-- Reads the Clients whose callers wait for the same limiter. KEYS[@waiters] is a sorted set:
--   "<id>"   Its score is the permits that the waiters of a Client got, and the 1024th part of those that they
--            want, at most 1023. Only differences of the whole numbers count.
--   "<id>!"  Its score is minus the time by which the next call of the Client is due, Unix milliseconds of the
--            server. The fraction is the 2048th part of the milliseconds by which its calls may be late.
--   clock    Its score is minus the microseconds by which the most advanced clock is ahead of the server's, and
--            4e15 more, so that it is below 0. A set with a member of more than 64 bytes is no list, in which
--            each command would read the Clients one after another.
--   "held"   Of an InFlight: see hold there.
-- Without rights for the key, or if it has another type, the Client counts as the only one.
--
-- All waiters are dated by the most advanced clock. Otherwise a bucket that a Client has dated grants nothing to
-- those behind until their clocks have caught up.
-- Sets: ahead clock first id late lead moved now millis rest rival t waiters.
local id, late, rest, lead = ARGV[@last + 6], ARGV[@last + 7] + 0, ARGV[@last + 8] + 0, ARGV[@last + 9] + 0
local clock = 'the most advanced clock of the Clients whose callers wait for the limiter'
local waiters, t = KEYS[@waiters], redis.pcall('TIME')
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
  millis, ahead = floor(now / 1000), moved == 0 and 4e15 + now - server
end
