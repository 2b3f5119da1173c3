-- Repairs. A script is one part, or the part unchanged and another. A part starts at its "--@ name"
-- line. A script replies 0 if the limiter has changed since it was looked at, and has then changed
-- nothing. Its work is bounded by its arguments.

--@ unchanged
-- Precedes value and cut. KEYS: 1 configuration   2 value   3 permits
-- ARGV: 1 rate   2 interval   3 type   4 '1' if there is a value   5 its first 64 bytes   6 the number of grants
--       7 the first of them, or ''   8 the last, or ''
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

--@ value
-- ARGV[9]: the right value
local life = redis.call('PTTL', has and KEYS[2] or KEYS[3])
redis.call('SET', KEYS[2], ARGV[9])
if life > 0 then
  redis.call('PEXPIRE', KEYS[2], life)
end
return 1

--@ cut
-- Removes the members ARGV[10] and following. ARGV[9] is the member that replaces the last of them, or ''.
-- Replies the first and the last member of the set then, or ''.
local score
for i = 10, #ARGV do
  score = redis.call('ZSCORE', KEYS[3], ARGV[i])
  if not score then
    return 0
  end
end
if ARGV[9] ~= '' then
  if redis.call('ZSCORE', KEYS[3], ARGV[9]) then
    return 0
  end
  redis.call('ZADD', KEYS[3], score, ARGV[9])
end
redis.call('ZREM', KEYS[3], unpack(ARGV, 10))
return {redis.call('ZRANGE', KEYS[3], 0, 0)[1] or '', redis.call('ZRANGE', KEYS[3], -1, -1)[1] or ''}

--@ orphan
-- KEYS: value, permits, names that a limiter of them can have.
-- ARGV: the type of the limiter that counts by other keys, or ''.
for i = 3, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1
      and (ARGV[1] == '' or redis.call('TYPE', KEYS[i]).ok ~= 'hash'
        or redis.call('HGET', KEYS[i], 'type') ~= ARGV[1]) then
    return 0
  end
end
return redis.call('UNLINK', KEYS[1], KEYS[2])

--@ idle
-- KEYS: configuration, value, permits.
-- ARGV: rate, interval, type; the first 64 bytes of the value or '', the number of grants, the last.
local config = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'type')
for i = 1, 3 do
  if config[i] ~= ARGV[i] then
    return 0
  end
end
local last, time = redis.call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES'), redis.call('TIME')
if redis.call('GETRANGE', KEYS[2], 0, 63) ~= ARGV[4]
    or redis.call('ZCARD', KEYS[3]) ~= tonumber(ARGV[5]) or (last[1] or '') ~= ARGV[6]
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
