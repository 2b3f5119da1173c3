package policies

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestNamesOfATokenBucket are small in Redis, and nothing is left of them once they are full again. NAMES says how many.
func TestNamesOfATokenBucket(t *testing.T) {
	names := 5_000
	if text := os.Getenv("NAMES"); text != "" {
		var err error
		names, err = strconv.Atoi(text)
		require.NoError(t, err, "NAMES must be a number")
	}
	server := servers.Single(t)
	conn := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	ctx := context.Background()
	used := func() int64 {
		info, err := conn.Do(ctx, conn.B().Info().Section("memory").Build()).ToString()
		require.NoError(t, err)
		_, text, _ := strings.Cut(info, "used_memory:")
		text, _, _ = strings.Cut(text, "\r\n")
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		return n
	}
	size := func() int64 {
		n, err := conn.Do(ctx, conn.B().Dbsize().Build()).AsInt64()
		require.NoError(t, err)
		return n
	}
	client := rratelimiter.New(conn)
	take := func(name string, full time.Duration) {
		d, err := limit.New(client, name, limit.TokenBucket{Capacity: 10, Refill: 1, Interval: full}).Take(ctx, 1)
		assert.NoError(t, err)
		assert.True(t, d.Allowed)
	}
	take("none", time.Minute) // the script is loaded
	require.NoError(t, limit.New(client, "none", limit.TokenBucket{Capacity: 10, Refill: 1, Interval: time.Minute}).Reset(ctx))
	before := used()

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
	require.Less(t, took, full, "the first are full again before the last one is used: this machine is too slow for so many")
	require.EqualValues(t, names, size())
	each := float64(used()-before) / float64(names)
	t.Logf("%d names, used in %v: %.1f bytes each in Redis", names, took.Round(time.Millisecond), each)
	assert.Less(t, each, 180.0) // 129 and the tables, whose size is a power of two

	deadline := time.Now().Add(full + time.Minute)
	for size() > 0 && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond) // Redis looks for what has expired by itself
	}
	assert.Zero(t, size())
}
