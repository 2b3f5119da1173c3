-- Reads the permits set's sizes and TTLs. Sets ttl (of a configuration without keepAliveTime),
-- setTTL (-2: no set) and expired (the number of expired grants).
-- Needs: keepAlive ended permitsKey. Sets: expired setTTL ttl.
local ttl = keepAlive == '0' and call('PTTL', KEYS[1])
local expired, setTTL = call('ZCOUNT', permitsKey, '-inf', ended), call('PTTL', permitsKey)
