package scale_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// pace is callers in a loop, on links with these round trips in milliseconds.
type pace struct {
	policy     limit.Policy
	callers    int
	serverTime bool
	trips      []int
}

func bucket(capacity, rate int64) limit.Policy {
	return limit.TokenBucket{Capacity: capacity, Refill: rate, Interval: time.Second}
}

func leaky(rate int64) limit.Policy {
	return limit.LeakyBucket{Capacity: 1, Leak: rate, Interval: time.Second}
}

func smooth() limit.Policy {
	return limit.Smooth{Permits: 1000, Interval: time.Second, Burst: time.Millisecond}
}

// paces are the links that are always tested. PACE=all tests allPaces.
var (
	paces = []pace{
		{leaky(1000), 512, false, []int{20, 80}},
		{bucket(10, 1000), 512, true, []int{80}},
		{leaky(50), 8, true, []int{12}},
	}
	links    = []int{0, 5, 20, 80, 100}
	allPaces = []pace{
		{leaky(200), 512, false, links},
		{leaky(1000), 512, false, links},
		{bucket(10, 1000), 512, false, links},
		{smooth(), 512, false, links},
		{leaky(200), 512, true, links},
		{leaky(1000), 512, true, links},
		{bucket(10, 1000), 512, true, links},
		{smooth(), 512, true, links},
		{leaky(50), 8, true, []int{6, 12, 20}},
		{bucket(1, 20_000), 512, false, []int{6}},
		{leaky(50_000), 512, false, []int{0, 6}},
		{bucket(1, 500), 1, false, []int{0}},
		{leaky(1000), 1, false, []int{0}},
	}
)

// TestAcquire_LongLinks_KeepThePace: callers that wait get the rate of a bucket, however far Redis is.
func TestAcquire_LongLinks_KeepThePace(t *testing.T) {
	server := servers.Single(t)
	all := os.Getenv("PACE") == "all"
	if all {
		paces = allPaces
	}
	for i, p := range paces {
		for _, trip := range p.trips {
			share := p.share(t, server.Addr(), trip, fmt.Sprint("pace", i, trip))
			t.Logf("%T%v, %d callers, server time %v, %d ms: %.2f", p.policy, p.policy, p.callers, p.serverTime, trip, share)
			if !all {
				// A busy machine is late by more than the link.
				assert.True(t, share > 0.75 && share < 1.1, "%+v, %d ms: %.2f of the rate", p, trip, share)
			}
		}
	}
}

// share returns the permits that the callers get, as a share of the rate.
func (p pace) share(t *testing.T, addr string, trip int, name string) float64 {
	if trip > 0 {
		link := proxy.Start(t, addr)
		for _, direction := range []string{"upstream", "downstream"} {
			link.Disturb(t, "latency", direction, fmt.Sprintf(`"latency": %d`, trip/2))
		}
		addr = link.Listen
	}
	conn := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true,
		DisableCache: true})
	var options []rratelimiter.Option
	if p.serverTime {
		options = append(options, rratelimiter.WithServerTime())
	}
	l := limit.New(rratelimiter.New(conn, options...), name, p.policy)
	ctx, end := context.WithCancel(t.Context())
	var granted atomic.Int64
	var callers sync.WaitGroup
	for range p.callers {
		callers.Go(func() {
			for l.Acquire(ctx, 1) == nil {
				granted.Add(1)
			}
		})
	}
	time.Sleep(1500 * time.Millisecond) // a Smooth uses what it has stored
	before, start := granted.Load(), time.Now()
	time.Sleep(env.Duration("PACE_TIME", 2*time.Second))
	count, took := granted.Load()-before, time.Since(start)
	end()
	callers.Wait()
	rate := 1000.0
	switch p := p.policy.(type) {
	case limit.TokenBucket:
		rate = float64(p.Refill)
	case limit.LeakyBucket:
		rate = float64(p.Leak)
	}
	return float64(count) / took.Seconds() / rate
}
