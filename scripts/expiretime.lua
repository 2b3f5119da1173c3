-- Replies the Unix milliseconds at which the configuration expires, -1 if it has no TTL, -2 if it does
-- not exist.
--
-- KEYS: 1 configuration
--@include names
local at = redis.pcall('PEXPIRETIME', KEYS[1])
if type(at) ~= 'number' then
  -- A server older than 7.0.
  local time = call('TIME')
  at = call('PTTL', KEYS[1])
  if at >= 0 then
    at = at + time[1] * 1000 + math.floor(time[2] / 1000)
  end
end
return at
