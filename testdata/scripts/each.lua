-- internal/include/names.lua
local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
local call, find, match, page = redis.call, string.find, string.match, 256
local DONE, AGAIN, NO_RATE, CORRUPT, PREFETCHED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
-- internal/include/slack.lua
local base = #KEYS - 5
local ttl = call('PTTL', KEYS[1])
local interval = tonumber(call('HMGET', KEYS[1], 'interval')[1] or '0') or 0
local slack = math.floor(math.max(0, math.min(interval, 1e15))) + 86400000
-- scripts/each.lua
local time, life, own = tonumber(ARGV[2]), ARGV[2], ARGV[2]
local reply = redis.pcall(ARGV[1], KEYS[1], unpack(ARGV, 2))
if type(reply) == 'table' then
  if ARGV[3] and string.find(reply.err, 'rong number of arg') then
    return -2
  end
  return reply
end
ttl = call('PTTL', KEYS[1])
if time and time < 1e15 and ttl ~= -2 then
  life, own = time + 1, time + 1 + slack
end
local compares = ttl ~= -2 and string.find(table.concat(ARGV, ' ', 3), '[GL]T')
for i = 2, 5 do
  if not time then
    reply = reply + call(ARGV[1], KEYS[i])
  elseif i < 4 then
    reply = reply + call(ARGV[1], KEYS[i], life, unpack(ARGV, 3))
  else
    local changed = call(ARGV[1], KEYS[i], own, unpack(ARGV, 3))
    reply = reply + (compares and 0 or changed)
  end
end
-- internal/include/outlive.lua
for i = base + 2, base + 5 do
  local life = call('PTTL', KEYS[i])
  if ttl ~= -2 and life >= 0 then
    local least = ttl + 1
    if i - base > 3 then
      least = least + slack
    end
    if ttl < 0 or ttl >= 1e15 then
      call('PERSIST', KEYS[i])
    elseif life < least then
      call('PEXPIRE', KEYS[i], least)
    end
  end
end
-- scripts/each.lua
return reply
