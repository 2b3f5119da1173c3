package limit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestWithWaitJitter_GoAlone_KeepsThePace: its waiters are late by at most a fortieth of the time.
func TestWithWaitJitter_GoAlone_KeepsThePace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		opts    []rratelimiter.Option
		limiter shareTest
		callers int
		least   int64
	}{
		{nil, ofRedisson(1, 100*time.Millisecond), 4, 285},
		{nil, ofRedisson(1, 100*time.Millisecond).join(), 4, 285},
		{nil, ofRedisson(20, time.Second), 6, 580},
		{nil, ofRedisson(1, time.Second), 1, 29},
		{[]rratelimiter.Option{rratelimiter.WithWaitJitter(time.Hour)}, ofRedisson(20, time.Second), 6, 550}, // at first, more waits are late
		{[]rratelimiter.Option{rratelimiter.WithWaitJitter(0)}, ofRedisson(1, 100*time.Millisecond), 4, 300},
	} {
		withRedis(t, func(t *testing.T, f *fixture) {
			f.Latency.Store(int64(200 * time.Microsecond))
			got := shares(t, f.Fixture, 30*time.Second, test.limiter.open, site{callers: test.callers, opts: test.opts})
			assert.GreaterOrEqual(t, got.sum(), test.least, "%+v", test)
		})
	}
}

// TestWithWaitJitter_BesideRedisson_EachSideHasAQuarter: threads of another program wait as Redisson's do, with a
// timer that ticks each 5 to 100 ms, and may be later than that. Callers of Clients have contexts and clocks of their own.
// With DEEP, it runs all combinations.
func TestWithWaitJitter_BesideRedisson_EachSideHasAQuarter(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	perSecond, each100ms, hundred := ofRedisson(20, time.Second), ofRedisson(1, 100*ms), ofRedisson(100, time.Second)
	type crowd struct {
		limiter                shareTest
		clients, ours, threads int
		site                   site
		tick                   time.Duration
		late                   time.Duration // of a thread
	}
	crowds := []crowd{
		{perSecond, 1, 6, 6, site{}, 100 * ms, 10 * ms}, {perSecond, 1, 1, 20, site{}, 100 * ms, 0},
		{perSecond, 1, 40, 6, site{within: contexts[:1], clock: -30 * ms}, 26 * ms, 0},
		{perSecond, 1, 6, 6, site{within: contexts[1:2], clock: 30 * ms}, 100 * ms, 0},
		{perSecond, 3, 10, 6, site{within: contexts[2:], trip: 6 * ms}, 100 * ms, 0},
		{each100ms, 2, 4, 4, site{clock: 30 * ms, within: contexts[:1]}, 26 * ms, 0},

		{perSecond, 1, 20, 1, site{}, 100 * ms, 0}, {perSecond, 5, 6, 6, site{}, 100 * ms, 0},
		{each100ms, 5, 1, 4, site{}, 100 * ms, 0}, {hundred, 3, 30, 30, site{}, 100 * ms, 0},
	}[:redistest.Deep(6, 10)]
	for _, tick := range []time.Duration{5 * ms, 26 * ms, 100 * ms}[:redistest.Deep(0, 3)] {
		for _, clock := range []time.Duration{0, 5 * ms, -5 * ms, 30 * ms, -30 * ms} {
			for _, within := range append(contexts, 0) {
				s := site{clock: clock, within: []time.Duration{within}}
				crowds = append(crowds, crowd{perSecond, 1, 40, 6, s, tick, 0}, crowd{perSecond, 1, 6, 6, s, tick, 0},
					crowd{perSecond, 3, 10, 6, s, tick, 0}, crowd{each100ms, 1, 4, 4, s, tick, 0},
					crowd{each100ms, 2, 4, 4, s, tick, 0})
			}
		}
	}
	for _, c := range crowds {
		withRedis(t, func(t *testing.T, f *fixture) {
			f.Latency.Store(int64(200 * time.Microsecond))
			lasts := forSeconds(12, 30)
			ctx, end := context.WithTimeout(t.Context(), lasts)
			defer end()
			var all sync.WaitGroup
			var theirs atomic.Int64
			other := c.limiter.open(rratelimiter.New(f.Conn))
			for range c.threads {
				all.Go(func() {
					for ctx.Err() == nil {
						d, err := other.Take(ctx, 1)
						if err == nil && d.Allowed {
							theirs.Add(1)
							continue
						}
						at := time.Now().Add(d.RetryAfter + 3*ms)
						time.Sleep(time.Until(at.Truncate(c.tick).Add(c.tick)) + rand.N(2*ms+2*c.late))
					}
				})
			}
			c.site.callers = c.ours
			ours := shares(t, f.Fixture, lasts, c.limiter.open, slices.Repeat([]site{c.site}, c.clients)...).sum()
			all.Wait()
			about := fmt.Sprintf("%+v: %d and %d", c, ours, theirs.Load())
			sum := float64(ours + theirs.Load())
			assert.GreaterOrEqual(t, float64(min(ours, theirs.Load())), 0.24*sum, about)
			assert.GreaterOrEqual(t, sum, 0.75*c.limiter.rate*lasts.Seconds(), about)
		})
	}
}
