-- Removes up to 32 Clients that are absent for three seconds. Each call that marks some or adds one does so, which
-- bounds the set by the Clients of the last seconds.
-- Needs: t waiters.
local gone = redis.pcall('ZRANGEBYSCORE', waiters, 1e13, '(' .. 1e13 + t - 3000, 'LIMIT', '0', '32')
for i = 1, #gone do
  redis.pcall('ZREM', waiters, gone[i], string.sub(gone[i], 1, -2))
end
