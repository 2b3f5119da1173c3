-- internal/include/names.lua
local redis, string, KEYS, ARGV = redis, string, KEYS, ARGV
local call, find, match, page = redis.call, string.find, string.match, 256
local DONE, AGAIN, NO_RATE, CORRUPT, PREFETCHED, DONE_OWN, NEEDS_KEYS = 0, 1, 2, 3, 4, 5, 6
-- internal/include/slack.lua
local base = #KEYS - 5
local ttl = call('PTTL', KEYS[1])
local interval = tonumber(call('HMGET', KEYS[1], 'interval')[1] or '0') or 0
local slack = math.floor(math.max(0, math.min(interval, 1e15))) + 86400000
-- scripts/move.lua
local reply = 1
if ttl == -2 then
  return -1
end
if ARGV[2] ~= '1' and call('EXISTS', KEYS[6]) == 1 then
  return 0
end
if KEYS[1] == KEYS[6] then
  return 1
end
if ARGV[1] == 'COPY' then
  local able = redis.pcall('COPY', KEYS[6], KEYS[1])
  if type(able) == 'table' then
    return string.find(able.err, 'nknown') and -2 or able
  end
end
call('UNLINK', KEYS[7], KEYS[9])
for i = 1, 5 do
  if i > 1 then
    call('UNLINK', KEYS[i + 5])
  end
  if call('EXISTS', KEYS[i]) == 1 then
    if ARGV[1] == 'COPY' then
      call('COPY', KEYS[i], KEYS[i + 5], 'REPLACE')
    else
      call('RENAME', KEYS[i], KEYS[i + 5])
    end
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
-- scripts/move.lua
return reply
