-- Gives the state the TTL of the configuration: keepAliveTime from now, or the expiry that was set.
-- The TTL of the client's own keys is longer by slack.
-- Needs: interval keepAlive permitsKey setTTL ttl valueAt valueKey.
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
