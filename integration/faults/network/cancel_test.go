package network_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// A server hangs repeatedly while callers cancel at random times. Afterwards exactly the permits that
// callers got are taken, and few goroutines are left.
func TestNetwork_ServerHangsAndCallersCancel_EveryPermitIsCounted(t *testing.T) {
	s := servers.Single(t)
	conn := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{s.Addr()}})
	for _, opts := range [][]rratelimiter.Option{nil, {rratelimiter.WithDenialCache(time.Hour)}} {
		l := rratelimiter.New(conn, opts...).Limiter("x")
		const rate = 1000000
		require.NoError(t, l.SetRate(t.Context(), rratelimiter.Rate{Permits: rate, Interval: time.Hour}))
		before := runtime.NumGoroutine()
		var got atomic.Int64
		var wg sync.WaitGroup
		stop := make(chan struct{})
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(rand.IntN(50)) * time.Millisecond):
				}
				_ = s.Pause()
				time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
				_ = s.Resume()
			}
		}()
		end := time.Now().Add(3 * time.Second)
		for range 300 {
			wg.Go(func() {
				for time.Now().Before(end) {
					n := int64(1 + rand.IntN(5))
					ctx, cancel := context.WithTimeout(context.Background(),
						time.Duration(rand.IntN(100000))*time.Microsecond)
					if rand.IntN(2) == 0 {
						ctx = context.Background()
					}
					ok, err := everycall.Acquire(ctx, l, rand.IntN(4), n, 20*time.Millisecond)
					cancel()
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("%v", err)
					}
					if ok {
						got.Add(n)
					}
				}
			})
		}
		wg.Wait()
		close(stop)
		time.Sleep(2 * time.Second)
		free, err := l.AvailablePermits(t.Context())
		require.NoError(t, err)
		assert.Equal(t, rate-got.Load(), free)
		assert.LessOrEqual(t, runtime.NumGoroutine(), before+8)
	}
}
