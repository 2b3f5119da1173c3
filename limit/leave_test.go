package limit

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policymodel"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestAcquire_FirstCallerLeaves_OthersMoveUp: each of them is served one permit earlier.
func TestAcquire_FirstCallerLeaves_OthersMoveUp(t *testing.T) {
	eachPolicy(t, steady(10), func(t *testing.T, f *fixture, p Policy) {
		l := New(f.exact(), "name", p)
		for range 2 { // Smooth's first costs nothing
			require.NoError(t, l.Acquire(t.Context(), 1))
		}
		start := time.Now()
		ctx, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		var served [6]time.Duration
		for i := range served {
			callers.Go(func() {
				if i > 0 {
					ctx = t.Context()
				}
				if err := l.Acquire(ctx, 1); i == 0 {
					assert.ErrorIs(t, err, context.Canceled)
				} else {
					assert.NoError(t, err)
				}
				served[i] = time.Since(start)
			})
			synctest.Wait()
		}
		time.Sleep(10 * time.Millisecond)
		leave()
		callers.Wait()
		for i, at := range served[1:] {
			assert.InDelta(t, time.Duration(i+1)*100*time.Millisecond, at, float64(2*time.Millisecond), "caller %d", i+1)
		}
	})
}

// TestAcquire_CallersLeave_KeepNothing: in a call that is under way too. A Smooth would grant the first
// of them whatever it wants.
func TestAcquire_CallersLeave_KeepNothing(t *testing.T) {
	patient := slices.DeleteFunc(slices.Clone(everyPolicy), func(p Policy) bool { return p == tenSmooth })
	eachPolicy(t, patient, func(t *testing.T, f *fixture, p Policy) {
		l := New(f.client, "name", p)
		require.NoError(t, l.Acquire(t.Context(), 9))
		before := peekAll(t, l)[0].Remaining
		ctx, leave := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		wait := func(permits int64) {
			callers.Go(func() { assert.ErrorIs(t, l.Acquire(ctx, permits), context.Canceled) })
			synctest.Wait()
		}
		if _, leaky := p.(LeakyBucket); !leaky { // its waiters wait for all that was taken
			f.Latency.Store(int64(20 * time.Millisecond))
			wait(1)
		}
		wait(5)
		wait(1)
		leave()
		callers.Wait()
		require.NoError(t, f.client.Flush(t.Context()))
		time.Sleep(time.Second) // permits of a caller that has left are refunded in the background
		f.Latency.Store(0)
		assert.Equal(t, before, peekAll(t, l)[0].Remaining)
	})
}

// impatient has callers take permits again and again until ctx ends. Each leaves in a random way, after
// a random time. It counts the permits that callers could use.
func impatient(ctx context.Context, t *testing.T, l *Limiter, random *rand.Rand, granted *atomic.Int64) {
	for ctx.Err() == nil {
		patience := time.Duration(1+random.IntN(300)) * time.Millisecond
		ok, err := false, error(nil)
		switch random.IntN(3) {
		case 0:
			ok, err = l.TryAcquireWithin(ctx, 1, patience)
		case 1:
			within, cancel := context.WithTimeout(ctx, patience)
			err = l.Acquire(within, 1)
			ok = err == nil
			cancel()
		default:
			within, cancel := context.WithCancel(ctx)
			time.AfterFunc(patience, cancel)
			err = l.Acquire(within, 1)
			ok = err == nil
			cancel()
		}
		if err != nil {
			assert.True(t, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded), "%v", err)
		}
		if ok {
			granted.Add(1)
		}
		time.Sleep(time.Duration(1+random.IntN(20)) * time.Millisecond) // also if it was denied at once
	}
}

// TestAcquire_ImpatientCallers_TakeAllThatIsFree: nearly as many permits are granted as if the next
// caller were always served, and a patient caller waits no longer than those before it need.
func TestAcquire_ImpatientCallers_TakeAllThatIsFree(t *testing.T) {
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
				ctx, end := context.WithTimeout(t.Context(), lasts)
				defer end()
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
