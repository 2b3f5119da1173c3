package sequences_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

// mainBranch is a limiter of Redisson whose release is that of Redisson's main branch of September 2026, which no
// release has. It takes the permits off the grants as well.
type mainBranch struct {
	calls.Library
	redis rueidis.Client
	keys  state.Keys
}

// releaseOfMain takes permits off the grants, the oldest first and expired ones too. A grant that keeps some has the
// same random bytes and time. The value rises by all permits, at most to the rate; a missing value counts as the rate.
const releaseOfMain = `
local config = redis.call('HMGET', KEYS[1], 'rate', 'interval', 'type', 'keepAliveTime')
if not (config[1] and config[2] and config[3]) then
  return redis.error_reply('RateLimiter is not initialized')
end
local own = config[3] == '1' and 1 or 0
local value, permits = KEYS[2 + own], KEYS[4 + own]
local rest = ARGV[1] + 0
while rest > 0 do
  local oldest = redis.call('ZRANGE', permits, 0, 0, 'WITHSCORES')
  if not oldest[1] then
    break
  end
  local head, n = string.sub(oldest[1], 1, -5), struct.unpack('<I4', string.sub(oldest[1], -4))
  redis.call('ZREM', permits, oldest[1])
  if n > rest then
    redis.call('ZADD', permits, oldest[2], head .. struct.pack('<I4', n - rest))
  end
  rest = rest - math.min(n, rest)
end
local free = (redis.call('GET', value) or config[1]) + ARGV[1]
redis.call('SET', value, string.format('%.0f', math.min(free, config[1] + 0)))
local ttl = redis.call('PTTL', KEYS[1])
if (config[4] or '0') + 0 > 0 then
  ttl = config[4] + 0
  redis.call('PEXPIRE', KEYS[1], ttl)
end
if ttl > 0 then
  redis.call('PEXPIRE', value, ttl)
  redis.call('PEXPIRE', permits, ttl)
end
return 1`

func (j mainBranch) String() string { return j.Library.String() + " of the main branch" }

// Do makes a call, a release by the script.
func (j mainBranch) Do(ctx context.Context, c calls.Call) (calls.Reply, error) {
	switch {
	case c.Op != calls.Release:
		return j.Library.Do(ctx, c)
	case c.Permits < 0:
		return calls.Refused, nil
	case c.Permits == 0:
		return calls.Done, nil
	}
	return j.release(ctx, c.Permits)
}

func (j mainBranch) release(ctx context.Context, permits int64) (calls.Reply, error) {
	err := j.redis.Do(ctx, j.redis.B().Eval().Script(releaseOfMain).Numkeys(int64(len(j.keys))).Key(j.keys[:]...).
		Arg(fmt.Sprint(permits)).Build()).Error()
	if err != nil && strings.Contains(err.Error(), "is not initialized") {
		return calls.NotInitialized, nil
	}
	return calls.Done, err
}
