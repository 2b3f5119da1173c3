-- Repairs, one script each, of the text behind its "--@ name" line. Each replies 0 where the limiter is not any more as it was looked at, and
-- has changed nothing then. The work of each is bounded by its arguments.

--@ value
-- KEYS: configuration, value, permits. ARGV: rate, interval, type; 1 where there is a value, and its first 64 bytes; the number of grants, the first
-- and the last; the right value.
local config = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'type')
for i = 1, 3 do
  if config[i] ~= ARGV[i] then
    return 0
  end
end
local has = redis.call('EXISTS', KEYS[2]) == 1
if (has and '1' or '0') ~= ARGV[4] or redis.call('GETRANGE', KEYS[2], 0, 63) ~= ARGV[5]
    or redis.call('ZCARD', KEYS[3]) ~= tonumber(ARGV[6])
    or (redis.call('ZRANGE', KEYS[3], 0, 0)[1] or '') ~= ARGV[7]
    or (redis.call('ZRANGE', KEYS[3], -1, -1)[1] or '') ~= ARGV[8] then
  return 0
end
local life = redis.call('PTTL', has and KEYS[2] or KEYS[3])
redis.call('SET', KEYS[2], ARGV[9])
if life > 0 then
  redis.call('PEXPIRE', KEYS[2], life)
end
return 1

--@ orphan
-- KEYS: value, permits, names that a limiter of them can have. ARGV: the type of the limiter that counts by other keys, or ''.
for i = 3, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1
      and (ARGV[1] == '' or redis.call('TYPE', KEYS[i]).ok ~= 'hash' or redis.call('HGET', KEYS[i], 'type') ~= ARGV[1]) then
    return 0
  end
end
return redis.call('UNLINK', KEYS[1], KEYS[2])

--@ idle
-- KEYS: configuration, value, permits. ARGV: rate, interval, type; the first 64 bytes of the value or '', the number of grants, the last.
local config = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'type')
for i = 1, 3 do
  if config[i] ~= ARGV[i] then
    return 0
  end
end
local last, time = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES'), redis.call('TIME')
if redis.call('GETRANGE', KEYS[2], 0, 63) ~= ARGV[4] or redis.call('ZCARD', KEYS[3]) ~= tonumber(ARGV[5]) or (last[1] or '') ~= ARGV[6]
    or last[1] and tonumber(last[2]) > time[1] * 1000 - ARGV[2] then
  return 0
end
return redis.call('UNLINK', KEYS[2], KEYS[3])

--@ rewrite
-- KEYS: permits. ARGV: members, each with what it becomes.
local done = 0
for i = 1, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score and not redis.call('ZSCORE', KEYS[1], ARGV[i + 1]) then
    redis.call('ZADD', KEYS[1], score, ARGV[i + 1])
    redis.call('ZREM', KEYS[1], ARGV[i])
    done = done + 1
  end
end
return done

--@ remove
-- KEYS: permits. ARGV: members.
return redis.call('ZREM', KEYS[1], unpack(ARGV))

--@ expire
-- KEYS: a key. ARGV: milliseconds.
if redis.call('PTTL', KEYS[1]) ~= -1 then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])

--@ with
-- KEYS: configuration, state. ARGV: so many milliseconds longer.
local life = redis.call('PTTL', KEYS[1])
if life < 0 or redis.call('PTTL', KEYS[2]) ~= -1 then
  return 0
end
return redis.call('PEXPIRE', KEYS[2], life + ARGV[1])

--@ persist
-- KEYS: configuration, state.
if redis.call('PTTL', KEYS[1]) ~= -1 then
  return 0
end
return redis.call('PERSIST', KEYS[2])
