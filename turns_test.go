package rratelimiter

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestWithWaitJitter_WaitersHaveDeadlines_OthersGetAQuarter: six threads of another program wait as
// Redisson's do, and forty callers of a Client with more than they can be served in time.
func TestWithWaitJitter_WaitersHaveDeadlines_OthersGetAQuarter(t *testing.T) {
	for _, deadline := range []time.Duration{0, 5 * time.Second, 2 * time.Second, time.Second} {
		withRedis(t, func(t *testing.T, f *fixture) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(30*time.Second, cancel)
			initial := InitialRate(Rate{Permits: 20, Interval: time.Second})
			java := New(f.QuickConn()).Limiter("x", initial)
			l := New(f.Conn).Limiter("x", initial)
			var others, got atomic.Int64
			var wg sync.WaitGroup
			for range 6 {
				wg.Go(func() {
					for ctx.Err() == nil {
						d, err := java.Take(ctx, 1)
						if err != nil {
							return
						}
						if d.Allowed {
							others.Add(1)
						} else {
							time.Sleep(d.RetryAfter + rand.N(100*time.Millisecond))
						}
					}
				})
			}
			for range 40 {
				wg.Go(func() {
					for ctx.Err() == nil {
						one, stop := ctx, context.CancelFunc(func() {})
						if deadline > 0 {
							one, stop = context.WithTimeout(ctx, deadline)
						}
						if l.Acquire(one, 1) == nil {
							got.Add(1)
						} else {
							time.Sleep(20 * time.Millisecond)
						}
						stop()
					}
				})
			}
			wg.Wait()
			all := others.Load() + got.Load()
			assert.GreaterOrEqual(t, 4*min(others.Load(), got.Load()), all, "%v: %d of %d", deadline, got.Load(), all)
			assert.GreaterOrEqual(t, all, int64(570), "%v", deadline)
		})
	}
}
