package policies

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// NAMES names are small in Redis, and their keys expire once their buckets are full again.
func TestTokenBucket_ManyNames_AreSmallAndExpire(t *testing.T) {
	names := int(env.Number("NAMES", 5_000))
	server := servers.Single(t)
	conn := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	ctx := context.Background()
	client := rratelimiter.New(conn)
	take := func(name string, full time.Duration) {
		d, err := limit.New(client, name, limit.TokenBucket{Capacity: 10, Refill: 1, Interval: full}).Take(ctx, 1)
		assert.NoError(t, err)
		assert.True(t, d.Allowed)
	}
	take("none", time.Minute) // the script is loaded
	require.NoError(t, limit.New(client, "none",
		limit.TokenBucket{Capacity: 10, Refill: 1, Interval: time.Minute}).Reset(ctx))
	before := server.Memory(t)

	// Full again once all have been used, and measured.
	full := time.Duration(5+names/2000) * time.Second
	began := time.Now()
	var callers sync.WaitGroup
	for caller := range 64 {
		callers.Go(func() {
			for i := caller; i < names; i += 64 {
				take(fmt.Sprint("user:", 1_000_000+i), full)
			}
		})
	}
	callers.Wait()
	took := time.Since(began)
	require.Less(t, took, full,
		"the first are full again before the last one is used: this machine is too slow for so many")
	require.EqualValues(t, names, server.Keys(t))
	each := float64(server.Memory(t)-before) / float64(names)
	t.Logf("%d names, used in %v: %.1f bytes each in Redis", names, took.Round(time.Millisecond), each)
	assert.Less(t, each, 180.0) // 129 and the tables, whose size is a power of two

	deadline := time.Now().Add(full + time.Minute)
	for server.Keys(t) > 0 && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond) // Redis looks for what has expired by itself
	}
	assert.Zero(t, server.Keys(t))
}
