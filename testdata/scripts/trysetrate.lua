-- internal/include/names.lua
local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
local call, find, match, page = redis.call, string.find, string.match, 256
local DONE, AGAIN, NO_RATE, CORRUPT, PREFETCHED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
-- scripts/trysetrate.lua
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
