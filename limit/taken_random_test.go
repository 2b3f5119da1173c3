package limit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestTaken_ManyCalls_AreExact: calls that share grants settle at the same time, for less, the same and
// more, while replies are lost. Their contexts have ended. Some settle again later. Each refund of a bucket
// leaves out what has come back since its grant. So the two buckets may lack a part of a permit.
func TestTaken_ManyCalls_AreExact(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Deep(2, 10)) {
		runWithRedis(t, fmt.Sprint("seed ", seed), func(t *testing.T, f *fixture) {
			random := rand.New(rand.NewPCG(seed, 0))
			client, lose := lossyClient(t, f, []rratelimiter.Option{rratelimiter.WithServerTime()}[:seed%2]...)
			ended, end := context.WithCancel(t.Context())
			end()
			rate := rratelimiter.Rate{Permits: 1000, Interval: time.Hour}
			shared := client.Limiter("{x}:shared", rratelimiter.InitialRate(rate))
			own := New(client, "{x}:own", FixedWindow{1000, time.Hour, false}, SlidingWindow{1000, time.Hour, 0},
				SlidingLog{1000, time.Hour}, TokenBucket{1000, 1, 1000 * time.Hour}, LeakyBucket{1000, 1, 1000 * time.Hour},
				InFlight{1000, time.Hour, false})
			var calls [40]struct {
				Taken
				takes, uses int64
				limiters    []Takeable
			}
			f.Latency.Store(int64(time.Millisecond))
			wantOwn, wantShared := int64(1000), int64(1000)
			var all sync.WaitGroup
			for i := range calls {
				c := &calls[i]
				c.takes, c.limiters = 1+random.Int64N(9), []Takeable{own}
				c.uses = random.Int64N(2 * c.takes)
				if random.IntN(2) == 0 {
					c.uses, c.limiters = random.Int64N(c.takes+1), append(c.limiters, shared)
					wantShared -= c.uses
				}
				wantOwn -= c.uses
				all.Go(func() { takeAll(t, &c.Taken, c.takes, c.limiters...) })
			}
			all.Wait()
			for i := range calls {
				all.Go(func() { _ = calls[i].Settle(ended, calls[i].uses) })
			}
			for range 50 {
				lose.Store(random.Int32N(3))
				time.Sleep(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
			}
			lose.Store(0)
			all.Wait()
			for i := range calls {
				require.NoError(t, calls[i].Settle(t.Context(), 99))
			}
			const windows, inFlight = 3, 5
			for i, d := range peekAll(t, own) {
				switch {
				case i == inFlight:
					assert.EqualValues(t, 1000, d.Remaining, "all has been returned")
				case i >= windows && d.Remaining < wantOwn:
					assert.Equal(t, wantOwn-1, d.Remaining)
				default:
					assert.Equal(t, wantOwn, d.Remaining)
				}
			}
			assert.Equal(t, wantShared, available(t, shared))
		})
	}
}
