package benchmarks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	policies "github.com/rratelimiter/rratelimiter/limit"
)

// leavingFor is how long callers wait for a bucket in BenchmarkLeaving and BenchmarkProcesses.
const leavingFor = 4 * time.Second

// BenchmarkLeaving has callers of Acquire that leave at a random time, and come again. Reports the share
// of the rate that they are granted, the first burst included.
func BenchmarkLeaving(b *testing.B) {
	for name, test := range map[string]struct {
		policy   policies.Policy
		rate     int64 // a second
		callers  int
		patience time.Duration // at most; 0: no caller leaves
	}{
		"TokenBucket=10,50/callers=60/within=300ms":    {policies.TokenBucket{Capacity: 10, Refill: 50, Interval: time.Second}, 50, 60, 300 * time.Millisecond},
		"LeakyBucket=1,50/callers=60/within=300ms":     {policies.LeakyBucket{Capacity: 1, Leak: 50, Interval: time.Second}, 50, 60, 300 * time.Millisecond},
		"TokenBucket=10,1000/callers=200/within=50ms":  {policies.TokenBucket{Capacity: 10, Refill: 1000, Interval: time.Second}, 1000, 200, 50 * time.Millisecond},
		"TokenBucket=10,5000/callers=400/within=30ms":  {policies.TokenBucket{Capacity: 10, Refill: 5000, Interval: time.Second}, 5000, 400, 30 * time.Millisecond},
		"LeakyBucket=1,200/callers=20/within=never":    {policies.LeakyBucket{Capacity: 1, Leak: 200, Interval: time.Second}, 200, 20, 0},
		"LeakyBucket=1,1000/callers=20/within=never":   {policies.LeakyBucket{Capacity: 1, Leak: 1000, Interval: time.Second}, 1000, 20, 0},
		"TokenBucket=10,200/callers=20/within=never":   {policies.TokenBucket{Capacity: 10, Refill: 200, Interval: time.Second}, 200, 20, 0},
		"TokenBucket=10,5000/callers=100/within=never": {policies.TokenBucket{Capacity: 10, Refill: 5000, Interval: time.Second}, 5000, 100, 0},
		"Smooth=200/callers=20/within=never":           {policies.Smooth{Permits: 200, Interval: time.Second}, 200, 20, 0},
	} {
		b.Run(name+"/library="+ours, func(b *testing.B) {
			redis := shared(b)
			for b.Loop() {
				redis.clear(b)
				l := policies.New(rratelimiter.New(dial(b, redis.addr)), fmt.Sprintf("leaving-%d", rand.Int()), test.policy)
				granted := acquireFor(b, []*policies.Limiter{l}, test.callers, test.patience)[0]
				b.ReportMetric(float64(granted)/(float64(test.rate)*leavingFor.Seconds()), "share")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkProcesses has ten Clients with 20 callers each that wait for one bucket. Reports the calls
// for a permit, and the fewest and the most permits of a Client.
func BenchmarkProcesses(b *testing.B) {
	b.Run("library="+ours, func(b *testing.B) {
		redis := shared(b)
		for b.Loop() {
			redis.clear(b)
			name := fmt.Sprintf("processes-%d", rand.Int())
			var limiters []*policies.Limiter
			for range 10 {
				limiters = append(limiters, policies.New(rratelimiter.New(dial(b, redis.addr)), name,
					policies.TokenBucket{Capacity: 10, Refill: 50, Interval: time.Second}))
			}
			before := redis.usage(b)
			granted := acquireFor(b, limiters, 20, 0)
			used := redis.usage(b).minus(before)
			var all int64
			for _, n := range granted {
				all += n
			}
			b.ReportMetric(used.scripts/float64(all), "calls/grant")
			b.ReportMetric(float64(slices.Min(granted)), "fewest")
			b.ReportMetric(float64(slices.Max(granted)), "most")
		}
		b.ReportMetric(0, "ns/op")
	})
}

// acquireFor has callers of each limiter acquire a permit again and again, and returns how many they
// were granted.
func acquireFor(b *testing.B, limiters []*policies.Limiter, callers int, patience time.Duration) []int64 {
	granted := make([]atomic.Int64, len(limiters))
	ctx, end := context.WithTimeout(context.Background(), leavingFor)
	defer end()
	waits, stop := context.WithCancel(context.Background()) // a deadline would deny the last callers early
	defer stop()
	context.AfterFunc(ctx, stop)
	var all sync.WaitGroup
	for i, l := range limiters {
		for range callers {
			all.Go(func() {
				for ctx.Err() == nil {
					caller, leave := context.WithCancel(waits)
					if patience > 0 {
						time.AfterFunc(rand.N(patience), leave)
					}
					err := l.Acquire(caller, 1)
					leave()
					if err == nil {
						granted[i].Add(1)
						continue
					}
					require.ErrorIs(b, err, context.Canceled)
				}
			})
		}
	}
	all.Wait()
	counts := make([]int64, len(limiters))
	for i := range granted {
		counts[i] = granted[i].Load()
	}
	return counts
}
