-- internal/include/names.lua
local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
local call, find, match, page = redis.call, string.find, string.match, 256
local DONE, AGAIN, NO_RATE, CORRUPT, PREFETCHED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
-- scripts/expiretime.lua
local at = redis.pcall('PEXPIRETIME', KEYS[1])
if type(at) ~= 'number' then
  local time = call('TIME')
  at = call('PTTL', KEYS[1])
  if at >= 0 then
    at = at + time[1] * 1000 + math.floor(time[2] / 1000)
  end
end
return at
