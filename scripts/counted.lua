-- Has the Clients of an OVERALL limiter share its counts of drift. The mark has the rate, the interval and
-- the time of the last one. A string of another format stays as it is, and its Clients share no counts.
--
-- KEYS: 1 the mark.
-- ARGV: 1  Unix milliseconds, or '' for the server's clock.   2  the rate and interval of the limiter.
--       3  how long the mark is valid, in milliseconds.
-- Replies 0 if the caller is to count, and marks that. Otherwise it replies the milliseconds until the mark
-- expires.
--@include names
--@include now
local mark = call('GET', KEYS[1])
local counted, at = match(mark or '', '^(%d+ %d+) (%d+)$')
if counted == ARGV[2] and math.abs(now - at) < ARGV[3] + 0 then
  return call('PTTL', KEYS[1])
end
if counted or not mark then
  call('SET', KEYS[1], ARGV[2] .. ' ' .. now, 'PX', ARGV[3])
end
return 0
