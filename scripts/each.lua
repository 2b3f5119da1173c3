-- Runs one command on every key: Redisson treats the five keys alike. If the command sets an expiry,
-- the state expires a millisecond later, and this client's own keys later by slack too. With GT or
-- LT, the reply does not count this client's own keys: the configuration decides.
--
-- KEYS: 1 configuration   2 value   3 permits   4 this client's value   5 this client's permits.
-- ARGV: the command and its arguments after the key.
-- Replies the number of changed keys, or -2 if the server does not know the conditions.
--@include names
--@include slack
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
--@include outlive
return reply
