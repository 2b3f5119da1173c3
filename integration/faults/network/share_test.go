package network_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestAcquire_OneClientIsFar_SharesAreEqual: thirty callers of each of two Clients wait for 40 or 1,000 permits a
// second, without contexts and with contexts of 2 s. The link of one has a round trip of 6 or 20 ms. On a machine that is
// too busy for the rate, each has something: there, who gets processor time decides.
func TestAcquire_OneClientIsFar_SharesAreEqual(t *testing.T) {
	server := servers.Single(t)
	for _, far := range []int{3, 10} {
		link := proxy.Start(t, server.Addr())
		link.Disturb(t, "latency", "upstream", fmt.Sprintf(`"latency": %d`, far))
		link.Disturb(t, "latency", "downstream", fmt.Sprintf(`"latency": %d`, far))
		var conns [2]rueidis.Client
		for i, addr := range []string{server.Addr(), link.Listen} {
			conns[i] = servers.Connect(t, rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true,
				DisableCache: true})
		}
		var all sync.WaitGroup
		for _, p := range []limit.Policy{
			limit.FixedWindow{Permits: 20, Interval: 500 * time.Millisecond},
			limit.SlidingLog{Permits: 20, Interval: 500 * time.Millisecond},
			limit.SlidingWindow{Permits: 20, Interval: 500 * time.Millisecond},
			limit.TokenBucket{Capacity: 1, Refill: 40, Interval: time.Second},
			limit.LeakyBucket{Capacity: 10, Leak: 40, Interval: time.Second},
			limit.LeakyBucket{Capacity: 1, Leak: 1000, Interval: time.Second},
			limit.Smooth{Permits: 40, Interval: time.Second, Burst: time.Millisecond},
			nil, // Redisson's layout
		} {
			for _, within := range []time.Duration{0, 2 * time.Second} {
				all.Go(func() {
					about := fmt.Sprintf("%T%v, %d ms away, contexts of %v", p, p, 2*far, within)
					var got [2]int64
					for i, conn := range conns {
						c := rratelimiter.New(conn)
						acquire := c.Limiter(about, rratelimiter.InitialRate(rratelimiter.Rate{Permits: 1000, Interval: time.Second})).
							Acquire
						if p != nil {
							acquire = limit.New(c, about, p).Acquire
						}
						got[i] = 0
						all.Go(func() { atomic.StoreInt64(&got[i], waitedFor(t, acquire, within)) })
					}
					time.Sleep(shareFor + 3*time.Second)
					near, away := float64(atomic.LoadInt64(&got[0])), float64(atomic.LoadInt64(&got[1]))
					t.Logf("%s: %v and %v", about, near, away)
					rate := 40.0
					if p == nil || p == (limit.LeakyBucket{Capacity: 1, Leak: 1000, Interval: time.Second}) {
						rate = 1000
					}
					most := 0.225
					if near+away < 0.95*rate*shareFor.Seconds() {
						most = 0.5
					}
					assert.InDelta(t, 1.025, 2*near/(near+away), most, about)
				})
			}
		}
		all.Wait()
	}
}

// shareFor is how long callers wait in a loop.
const shareFor = 14 * time.Second

// waitedFor returns the permits that thirty callers get.
func waitedFor(t *testing.T, acquire func(ctx context.Context, permits int64) error, within time.Duration) int64 {
	ctx, end := context.WithCancel(t.Context())
	time.AfterFunc(shareFor, end)
	var got atomic.Int64
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			for ctx.Err() == nil {
				one, stop := ctx, context.CancelFunc(func() {})
				if within > 0 {
					one, stop = context.WithTimeout(ctx, within)
				}
				if acquire(one, 1) == nil {
					got.Add(1)
				} else {
					time.Sleep(20 * time.Millisecond)
				}
				stop()
			}
		})
	}
	all.Wait()
	return got.Load()
}
