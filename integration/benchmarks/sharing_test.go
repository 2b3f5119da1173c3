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

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
	policies "github.com/rratelimiter/rratelimiter/limit"
)

// sharedPolicy is a policy for whose permits the callers of several Clients wait.
type sharedPolicy struct {
	name   string
	policy policies.Policy
	hold   time.Duration // of each permit
}

var sharedPolicies = []sharedPolicy{
	{"FixedWindow", policies.FixedWindow{Permits: 20, Interval: 500 * time.Millisecond}, 0},
	{"SlidingLog", policies.SlidingLog{Permits: 20, Interval: 500 * time.Millisecond}, 0},
	{"SlidingWindow", policies.SlidingWindow{Permits: 20, Interval: 500 * time.Millisecond}, 0},
	{"TokenBucket", policies.TokenBucket{Capacity: 1, Refill: 40, Interval: time.Second}, 0},
	{"LeakyBucket", policies.LeakyBucket{Capacity: 10, Leak: 40, Interval: time.Second}, 0},
	{"LeakyBucket1000", policies.LeakyBucket{Capacity: 1, Leak: 1000, Interval: time.Second}, 0},
	{"Smooth", policies.Smooth{Permits: 40, Interval: time.Second, Burst: time.Millisecond}, 0},
	{"InFlight", policies.InFlight{Permits: 5, Lease: time.Minute}, 50 * time.Millisecond},
}

// sharingWarmUp is the time until all Clients know of each other.
const sharingWarmUp = 2 * time.Second

// share has callers wait in Clients, one for each connection, and returns what each Client was granted in that time
// after the warm-up, and what the server did meanwhile.
func share(b *testing.B, redis *server, p sharedPolicy, callers int, d time.Duration,
	conns ...rueidis.Client) (granted []int64, used usage) {
	redis.clear(b)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	counts := make([]atomic.Int64, len(conns))
	name := fmt.Sprintf("sharing-%d", rand.Int())
	var waiting sync.WaitGroup
	for i, conn := range conns {
		l := policies.New(rratelimiter.New(conn), name, p.policy)
		for range callers {
			waiting.Go(func() {
				for {
					var taken policies.Taken
					if taken.Acquire(ctx, 1, l) != nil {
						return
					}
					counts[i].Add(1)
					if p.hold > 0 {
						time.Sleep(p.hold)
						_ = taken.Settle(ctx, 1)
					}
				}
			})
		}
	}
	time.Sleep(sharingWarmUp)
	granted = make([]int64, len(conns))
	for i := range counts {
		granted[i] = -counts[i].Load()
	}
	before := redis.usage(b)
	time.Sleep(d)
	used = redis.usage(b).minus(before)
	for i := range counts {
		granted[i] += counts[i].Load()
	}
	cancel()
	waiting.Wait()
	return granted, used
}

func sum(granted []int64) (sum int64) {
	for _, n := range granted {
		sum += n
	}
	return sum
}

// BenchmarkSharing prints what a grant costs the server while the callers of several Clients wait: its processor
// time, the time and the number of its scripts.
func BenchmarkSharing(b *testing.B) {
	for _, p := range sharedPolicies {
		for _, clients := range []int{1, 2, 50, 200} {
			b.Run(fmt.Sprintf("policy=%s/clients=%d", p.name, clients), func(b *testing.B) {
				redis := shared(b)
				conns := slices.Repeat([]rueidis.Client{dial(b, redis.addr)}, clients)
				granted, used := share(b, redis, p, max(2, 30/clients), 5*time.Second, conns...)
				all := float64(sum(granted))
				require.NotZero(b, all)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(used.cpu.Microseconds())/all, "cpu-us/grant")
				b.ReportMetric(float64(used.scriptTime.Microseconds())/all, "script-us/grant")
				b.ReportMetric(used.scripts/all, "calls/grant")
				b.ReportMetric(all/5, "grants/s")
				b.ReportMetric(float64(slices.Min(granted))*float64(clients)/all, "least-share")
			})
		}
	}
}

// BenchmarkFarClient prints what thirty callers of each of two Clients are granted if the link of one is slow.
func BenchmarkFarClient(b *testing.B) {
	for _, p := range sharedPolicies {
		for _, trip := range []time.Duration{6 * time.Millisecond, 20 * time.Millisecond} {
			b.Run(fmt.Sprintf("policy=%s/trip=%v", p.name, trip), func(b *testing.B) {
				redis := shared(b)
				link := proxy.Start(b, redis.addr)
				for _, direction := range []string{"upstream", "downstream"} {
					link.Disturb(b, "latency", direction, fmt.Sprintf(`"latency": %d`, trip.Milliseconds()/2))
				}
				granted, _ := share(b, redis, p, 30, 14*time.Second, dial(b, redis.addr), dial(b, link.Listen))
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(granted[0]), "near")
				b.ReportMetric(float64(granted[1]), "far")
			})
		}
	}
}
