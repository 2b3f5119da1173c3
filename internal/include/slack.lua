-- Sets slack, the additional TTL of this client's own keys, and ttl, of the configuration. Sets
-- base: the keys of the limiter that the script leaves begin after KEYS[base].
-- Sets: base interval slack ttl.
local base = #KEYS - 5
local ttl = call('PTTL', KEYS[1])
local interval = tonumber(call('HMGET', KEYS[1], 'interval')[1] or '0') or 0
local slack = math.floor(math.max(0, math.min(interval, 1e15))) + 86400000
