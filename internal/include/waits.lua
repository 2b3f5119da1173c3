-- Appends to reply when need permits return, as pairs of a time and permits. The unused permits of a
-- prefetch return when it ends. Their time is 50 ms later, since the call that returns them takes time,
-- and their number is negative. A prefetch is a grant with a score in the future, and with the ID of a
-- prefetch in its member. Without the ID it is a grant of a client whose clock is ahead.
-- Needs: interval need now permitsKey reply. Sets: need reply.
--@include member
local last, lastPrefetched, nowNumber = nil, nil, now + 0
local prefetches = call('ZRANGEBYSCORE', permitsKey, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', '0', page)
local oldest = call('ZRANGE', permitsKey, '0', need > 1 and page - 1 or '0', 'WITHSCORES')
-- For one permit the oldest grant suffices, unless it has none: Redisson grants requests for 0.
if need == 1 and oldest[1] and permitsOf(oldest[1]) == 0 then
  oldest = call('ZRANGE', permitsKey, '0', page - 1, 'WITHSCORES')
end
local at, prefetchAt = 1, 1
while need > 0 do
  while oldest[at] and tonumber(oldest[at + 1]) > nowNumber and prefetchOf(oldest[at]) do
    at = at + 2
  end
  while prefetches[prefetchAt] and not prefetchOf(prefetches[prefetchAt]) do
    prefetchAt = prefetchAt + 2
  end
  local wait, prefetch = oldest[at] and tonumber(oldest[at + 1]), prefetches[prefetchAt] and tonumber(prefetches[prefetchAt + 1])
  wait = wait and wait + interval - now
  prefetch = prefetch and prefetch - now + math.min(50, interval)
  local n, prefetched
  if prefetch and (not wait or prefetch < wait) then
    n, wait, prefetchAt, prefetched = permitsOf(prefetches[prefetchAt]), prefetch, prefetchAt + 2, true
  elseif wait then
    n, at = permitsOf(oldest[at]), at + 2
  else
    break
  end
  n, wait = n or 0, math.min(math.max(0, wait), 9007199254740992)
  need = need - n
  n = prefetched and -n or n
  if wait == last and prefetched == lastPrefetched then
    reply[#reply] = reply[#reply] + n
  else
    reply[#reply + 1], reply[#reply + 2], last, lastPrefetched = wait, n, wait, prefetched
  end
end
