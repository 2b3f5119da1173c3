package denials

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/servers"
)

// beforeLook calls back before a client reads through its cache, but for looks into memory alone.
type beforeLook struct {
	rueidis.Client
	call func()
}

func (c *beforeLook) DoMultiCache(ctx context.Context, multi ...rueidis.CacheableTTL) []rueidis.RedisResult {
	if call := c.call; call != nil && ctx.Err() == nil {
		c.call = nil
		call()
	}
	return c.Client.DoMultiCache(ctx, multi...)
}

// Issue 9, point 5: a denial ends where somebody else changed the limiter, also where its place in the cache has been taken
// by what was read since: by the watch of another denial, or by another Client on the same connection.
func TestADenialEndsThoughTheCacheWasFilledAgain(t *testing.T) {
	for name, again := range map[string]func(ctx context.Context, conn *beforeLook, limiter *rratelimiter.Limiter, release func()){
		"by a denial that was not kept": func(ctx context.Context, conn *beforeLook, limiter *rratelimiter.Limiter, release func()) {
			conn.call = release // after this denial, before its watch reads
			allowed, err := limiter.TryAcquire(ctx, 4)
			require.NoError(t, err)
			require.False(t, allowed)
		},
		"by another Client": func(ctx context.Context, conn *beforeLook, _ *rratelimiter.Limiter, release func()) {
			release()
			allowed, err := rratelimiter.New(conn, rratelimiter.WithDenialCache()).Limiter("limiter").TryAcquire(ctx, 9)
			require.NoError(t, err)
			require.False(t, allowed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			server := servers.Single(t)
			conn, there := &beforeLook{Client: connect(t, server)}, connect(t, server)
			limiter := rratelimiter.New(conn, rratelimiter.WithDenialCache()).Limiter("limiter")
			require.NoError(t, limiter.SetRate(ctx, rratelimiter.Rate{Permits: 10, Interval: time.Hour}))
			allowed, err := limiter.TryAcquire(ctx, 7)
			require.NoError(t, err)
			require.True(t, allowed)
			denied := func() bool {
				allowed, err := limiter.TryAcquire(ctx, 5)
				require.NoError(t, err)
				return !allowed
			}
			require.Eventually(t, func() bool {
				before := scriptCalls(t, server)
				for range 100 {
					require.True(t, denied())
					time.Sleep(100 * time.Microsecond)
				}
				return scriptCalls(t, server) == before
			}, 5*time.Second, 10*time.Millisecond)

			again(ctx, conn, limiter, func() {
				assert.NoError(t, rratelimiter.New(there).Limiter("limiter").Release(ctx, 4))
				time.Sleep(100 * time.Millisecond) // Redis has told by then
			})
			time.Sleep(400 * time.Millisecond) // and the cache has been filled again
			assert.Eventually(t, func() bool { return !denied() }, time.Second, time.Millisecond, "7 permits are free")
		})
	}
}
