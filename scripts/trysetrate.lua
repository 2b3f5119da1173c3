-- Sets the rate of a limiter that has none, or the fields that it lacks.
--
-- KEYS: 1 configuration   2 value   3 permits   4 this client's value   5 this client's permits.
-- ARGV: rate, interval, type, keepAliveTime.
-- Replies 1 if it set the type, 0 if not, or {CORRUPT, key, field, text}.
--@include names
local fields = {'rate', 'interval', 'type', 'keepAliveTime'}
local config = call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
if config[1] and config[2] and config[3] then
  return 0
end
for i = 1, 4 do
  if config[i] and not find(config[i], '^%d+$') then
    return {CORRUPT, 1, fields[i], config[i]}
  end
end
for i = 1, 4 do
  call('HSETNX', KEYS[1], fields[i], ARGV[i])
end
if config[3] then
  return 0
end
if ARGV[4] ~= '0' then
  call('PEXPIRE', KEYS[1], ARGV[4])
end
return 1
