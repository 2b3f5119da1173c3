package rratelimiter

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAnObserverIsToldWhoDecided, from memory too.
func TestAnObserverIsToldWhoDecided(t *testing.T) {
	sources := func(o *told) (all []Source) {
		decisions, _, _ := o.all()
		for _, d := range decisions {
			all = append(all, d.Source)
		}
		return all
	}
	observed(t, Rate{Permits: 10, Interval: time.Hour}, func(ctx context.Context, b *bubble, l *Limiter, o *told) {
		for range 3 {
			_, err := l.TryAcquire(ctx, 6)
			require.NoError(b, err)
			pass(second)
		}
		_, err := l.TryAcquireWithin(ctx, 6, second)
		require.NoError(b, err)
		assert.Equal(b, []Source{FromRedis, FromRedis, FromMemory, FromRedis}, sources(o))
	}, WithDenialCache(time.Hour))

	observed(t, Rate{Permits: 1_000_000, Interval: time.Hour}, func(ctx context.Context, b *bubble, l *Limiter, o *told) {
		b.Latency.Store(int64(500 * time.Microsecond))
		var carried, leased, used, from int64
		for i := range 3000 {
			pass(20 * time.Microsecond)
			if i%3 == 0 {
				require.NoError(b, l.Acquire(ctx, 1))
			} else {
				ok, err := l.TryAcquire(ctx, 1)
				require.NoError(b, err)
				require.True(b, ok)
			}
		}
		pass(second)
		assert.Positive(b, o.alone.Load(), "calls that fetched a lease alone")
		decisions, calls, waiting := o.all()
		require.Len(b, decisions, 3000)
		for _, d := range decisions {
			switch d.Source {
			case FromLease:
				used++
				assert.Zero(b, d.Took)
			case FromRedis:
				from++
			}
		}
		for _, c := range calls {
			carried += int64(c.Requests)
			leased += c.Leased
		}
		assert.EqualValues(b, 3000, used+from)
		assert.Greater(b, used, int64(2000))
		assert.GreaterOrEqual(b, leased, used)
		assert.Equal(b, from, carried)
		assert.Less(b, len(waiting), 100, "who has a lease does not wait")
	}, WithLease(shortLease))
}

// TestAnObserverIsToldWhoDecidedInACrowd that is served from leases, in line too: whom Redis decided on, a call carried.
func TestAnObserverIsToldWhoDecidedInACrowd(t *testing.T) {
	observed(t, Rate{Permits: 20_000, Interval: second}, func(ctx context.Context, b *bubble, l *Limiter, o *told) {
		b.Latency.Store(int64(500 * time.Microsecond))
		random := rand.New(rand.NewPCG(7, 8))
		var callers sync.WaitGroup
		for range 4000 {
			permits, waits := 1+random.Int64N(3), random.IntN(3) == 0
			callers.Go(func() {
				if waits {
					assert.NoError(b, l.Acquire(ctx, permits))
				} else {
					_, err := l.TryAcquire(ctx, permits)
					assert.NoError(b, err)
				}
			})
			if random.IntN(3) == 0 {
				pass(time.Duration(random.IntN(100)) * time.Microsecond)
			}
		}
		callers.Wait()
		pass(second)
		decisions, calls, _ := o.all()
		require.Len(b, decisions, 4000)
		by, inLine, carried := make(map[Source]int), 0, 0
		for _, d := range decisions {
			by[d.Source]++
			if d.Source == FromLease && d.Took > 0 {
				inLine++
			}
		}
		for _, c := range calls {
			carried += c.Requests
		}
		assert.Greater(b, by[FromLease], 1000)
		assert.Positive(b, inLine)
		again := carried - by[FromRedis] // whom a call did not serve, and a later one, or a lease, did
		assert.GreaterOrEqual(b, again, 0)
		assert.Less(b, again, 100)
	}, WithLease(shortLease))
}
