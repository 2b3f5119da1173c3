package outages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestOutage_SlotsMigrateUnderManyNames_NoPermitIsLost: calls for many names share a pipeline for each
// node. Some callers leave.
func TestOutage_SlotsMigrateUnderManyNames_NoPermitIsLost(t *testing.T) {
	t.Parallel()
	const names, callers = 300, 128
	cluster := servers.NewCluster(t)
	target := OnCluster(cluster)
	seen := countRedirections(&target)
	redis, err := rueidis.NewClient(target.Redis)
	require.NoError(t, err)
	defer redis.Close()
	keyed := limit.NewKeyed(rratelimiter.New(redis), "users", limit.FixedWindow{Permits: 1_000_000, Interval: time.Hour})
	var granted [names]atomic.Int64
	// The permit of a caller that leaves stays taken if its call is older than the window.
	for name := range names {
		ok, err := keyed.TryAcquire(t.Context(), fmt.Sprint(name), 1)
		require.NoError(t, err)
		require.True(t, ok)
		granted[name].Add(1)
	}
	var stop atomic.Bool
	var left atomic.Int64
	var all sync.WaitGroup
	time.Sleep(time.Second)
	for i := range callers {
		random := rand.New(rand.NewPCG(uint64(i), 0))
		all.Go(func() {
			for !stop.Load() {
				name, ctx, cancel := random.IntN(names), context.Background(), func() {}
				if i%2 == 0 {
					timeout := 5 * time.Second
					if random.IntN(10) == 0 {
						timeout = time.Duration(random.Int64N(int64(4 * time.Millisecond)))
					}
					ctx, cancel = context.WithTimeout(ctx, timeout)
				}
				ok, err := keyed.TryAcquire(ctx, fmt.Sprint(name), 1)
				cancel()
				switch {
				case err == nil && ok:
					granted[name].Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					left.Add(1)
				default:
					assert.NoError(t, err)
				}
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	for name := range 12 {
		slot, err := cluster.SlotOf(t.Context(), fmt.Sprintf("{users:%d}", name))
		require.NoError(t, err)
		from, err := cluster.MasterOf(t.Context(), slot)
		require.NoError(t, err)
		migrate(t, cluster, slot, from, cluster.OtherMaster(t, from), func() { time.Sleep(50 * time.Millisecond) })
	}
	time.Sleep(500 * time.Millisecond)
	stop.Store(true)
	all.Wait()
	time.Sleep(500 * time.Millisecond) // the permits of callers that have left return
	sum := int64(0)
	for name := range names {
		decisions, err := keyed.Limiter(fmt.Sprint(name)).Peek(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1_000_000-granted[name].Load(), decisions[0].Remaining, name)
		sum += granted[name].Load()
	}
	t.Logf("%d grants, %d callers left, %d ASK, %d MOVED", sum, left.Load(), seen.ask.Load(), seen.moved.Load())
	require.Positive(t, seen.ask.Load(), "ASK was never seen")
	require.Positive(t, seen.moved.Load(), "MOVED was never seen")
	require.Positive(t, left.Load())
}
