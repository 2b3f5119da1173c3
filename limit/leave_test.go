package limit

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policymodel"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// impatient has callers take permits again and again until ctx ends. Each leaves in a random way, after
// a random time. It counts the permits that callers could use.
func impatient(ctx context.Context, t *testing.T, l *Limiter, random *rand.Rand, granted *atomic.Int64) {
	for ctx.Err() == nil {
		patience := time.Duration(1+random.IntN(300)) * time.Millisecond
		within, leave := context.WithCancel(ctx)
		var ok bool
		var err error
		if random.IntN(3) == 0 {
			ok, err = l.TryAcquireWithin(ctx, 1, patience)
		} else {
			time.AfterFunc(patience, leave)
			err = l.Acquire(within, 1)
			ok = err == nil
		}
		leave()
		assert.True(t, err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded), "%v", err)
		if ok {
			granted.Add(1)
		}
		time.Sleep(time.Duration(1+random.IntN(20)) * time.Millisecond) // also if it was denied at once
	}
}

// TestAcquire_ImpatientCallers_TakeAllThatIsFree: nearly as many permits are granted as if the next
// caller were always served, and a patient caller waits no longer than those before it need.
func TestAcquire_ImpatientCallers_TakeAllThatIsFree(t *testing.T) {
	t.Parallel()
	const rate = 50
	crowd, lasts := redistest.Deep(12, 40), time.Duration(redistest.Deep(2, 6))*time.Second
	policies := []Policy{TokenBucket{1, rate, time.Second}, LeakyBucket{10, rate, time.Second},
		Smooth{Permits: rate, Interval: time.Second, WarmUp: time.Second}, FixedWindow{rate, time.Second, false},
		SlidingWindow{rate, time.Second, 20}, SlidingLog{rate, time.Second}}
	if redistest.Deep(0, 1) == 1 {
		policies = append(policies, LeakyBucket{1, rate, time.Second}, TokenBucket{10, rate, time.Second},
			Smooth{Permits: rate, Interval: time.Second, Burst: time.Millisecond}, FixedWindow{rate, time.Second, true})
	}
	for _, p := range policies {
		for _, clients := range []int{1, 2} {
			if window := p == (FixedWindow{rate, time.Second, false}); clients == 2 && !window && redistest.Deep(0, 1) == 0 {
				continue
			}
			withRedis(t, func(t *testing.T, f *fixture) {
				limiters := []*Limiter{New(f.client, "name", p), New(rratelimiter.New(f.Conn), "name", p)}
				f.Latency.Store(int64(500 * time.Microsecond))
				ctx := redistest.Timeout(t, lasts)
				begins := time.Now()
				var granted atomic.Int64
				var longest time.Duration
				var callers sync.WaitGroup
				callers.Go(func() {
					for {
						began := time.Now()
						if limiters[0].Acquire(ctx, 1) != nil {
							return
						}
						granted.Add(1)
						longest = max(longest, time.Since(began))
						time.Sleep(time.Millisecond)
					}
				})
				for i := range crowd {
					random := rand.New(rand.NewPCG(uint64(i), 0))
					callers.Go(func() { impatient(ctx, t, limiters[i%clients], random, &granted) })
				}
				callers.Wait()
				most := omniscient(p, begins, lasts)
				assert.GreaterOrEqual(t, float64(granted.Load()), 0.97*float64(most), "%+v, %d clients, of %d", p, clients, most)
				if clients == 1 {
					assert.LessOrEqual(t, longest, time.Duration(crowd+1)*time.Second/rate+time.Second, "%+v", p)
				}
			})
		}
	}
}

// omniscient returns how many permits a policy grants callers that wait, if one always does.
func omniscient(p Policy, begins time.Time, lasts time.Duration) (granted int64) {
	if leaky, ok := p.(LeakyBucket); ok {
		p = TokenBucket{1, leaky.Leak, leaky.Interval}
	}
	m, _ := modelOf(p)
	for now := begins; now.Before(begins.Add(lasts)); {
		if policymodel.Take(m, now.UnixMicro(), 1) {
			granted++
			continue
		}
		now = now.Add(micros(m.Wait(now.UnixMicro(), 1)))
	}
	return granted
}
