-- Appends to reply when need permits return, as pairs of a time and permits. The unused permits of a
-- lease return when it ends. Their time is 50 ms later, since the call that returns them takes time,
-- and their number is negative. A lease is a grant with a score in the future, and with the ID of a
-- lease in its member. Without the ID it is a grant of a client whose clock is ahead.
-- Needs: interval need now permitsKey reply. Sets: need reply.
--@include member
local last, lastLeased, nowNumber = nil, nil, now + 0
local leases = call('ZRANGEBYSCORE', permitsKey, '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', '0', page)
local oldest = call('ZRANGE', permitsKey, '0', need > 1 and page - 1 or '0', 'WITHSCORES')
-- For one permit the oldest grant suffices, unless it has none: Redisson grants requests for 0.
if need == 1 and oldest[1] and permitsOf(oldest[1]) == 0 then
  oldest = call('ZRANGE', permitsKey, '0', page - 1, 'WITHSCORES')
end
local at, leaseAt = 1, 1
while need > 0 do
  while oldest[at] and tonumber(oldest[at + 1]) > nowNumber and leaseOf(oldest[at]) do
    at = at + 2
  end
  while leases[leaseAt] and not leaseOf(leases[leaseAt]) do
    leaseAt = leaseAt + 2
  end
  local wait, lease = oldest[at] and tonumber(oldest[at + 1]), leases[leaseAt] and tonumber(leases[leaseAt + 1])
  wait = wait and wait + interval - now
  lease = lease and lease - now + math.min(50, interval)
  local n, leased
  if lease and (not wait or lease < wait) then
    n, wait, leaseAt, leased = permitsOf(leases[leaseAt]), lease, leaseAt + 2, true
  elseif wait then
    n, at = permitsOf(oldest[at]), at + 2
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
