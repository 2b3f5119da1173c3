package state

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// age makes all grants older and all TTLs shorter. It deletes a key whose TTL ends.
var age = rueidis.NewLuaScript(`
for i, key in ipairs(KEYS) do
  if i > 3 then
    local grants = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    for g = 1, #grants, 2 do
      redis.call('ZINCRBY', key, '-' .. ARGV[1], grants[g])
    end
  end
  local ttl = redis.call('PTTL', key)
  if ttl >= 0 then
    redis.call('PEXPIRE', key, string.format('%.0f', ttl - tonumber(ARGV[1])))
  end
end
return 1`)

// Age advances the time of a limiter by d.
func Age(ctx context.Context, client rueidis.Client, k Keys, d time.Duration) error {
	return age.Exec(ctx, client, k[:], []string{strconv.FormatInt(d.Milliseconds(), 10)}).Error()
}

// copied copies the keys of the first half to those of the second half, with their TTLs. COPY came
// with Redis 6.2.
var copied = rueidis.NewLuaScript(`
local half = #KEYS / 2
for i = 1, half do
  redis.call('DEL', KEYS[i + half])
  local dump = redis.call('DUMP', KEYS[i])
  if dump then
    -- To RESTORE 0 is no time to live.
    local ttl = redis.call('PTTL', KEYS[i])
    redis.call('RESTORE', KEYS[i + half], ttl < 0 and 0 or math.max(ttl, 1), dump)
  end
end
return 1`)

// Copy replaces a limiter by another one.
func Copy(ctx context.Context, client rueidis.Client, from, to Keys) error {
	return copied.Exec(ctx, client, append(from[:], to[:]...), nil).Error()
}
