package limit

import (
	"context"
	"errors"
	"math/rand/v2"
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

// TestAcquire_ManyCallers_AreServedInOrder: each is served when all policies have permits, with
// about one call to Redis for each time that permits return.
func TestAcquire_ManyCallers_AreServedInOrder(t *testing.T) {
	for name, test := range map[string]struct {
		policies []Policy
		want     []time.Duration
		calls    int64
	}{
		"FixedWindow": {[]Policy{FixedWindow{2, time.Second, false}},
			[]time.Duration{0, 0, time.Second, time.Second, 2 * time.Second}, 6},
		"SlidingWindow": {[]Policy{SlidingWindow{2, time.Second, 0}},
			[]time.Duration{0, 0, 1100 * time.Millisecond, 1100 * time.Millisecond, 2200 * time.Millisecond}, 7},
		"SlidingLog": {[]Policy{SlidingLog{2, time.Second}},
			[]time.Duration{0, 0, time.Second, time.Second, 2 * time.Second}, 6},
		"two at once": {
			[]Policy{FixedWindow{2, time.Second, false}, TokenBucket{3, 1, 2 * time.Second}},
			[]time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second}, 8,
		},
		"several buckets": {
			[]Policy{TokenBucket{1, 10, time.Second}, Smooth{Permits: 5, Interval: time.Second, Burst: time.Millisecond},
				LeakyBucket{3, 10, time.Second}},
			[]time.Duration{0, 200 * time.Millisecond, 400 * time.Millisecond, 600 * time.Millisecond}, 8,
		},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := New(f.exact(), "name", test.policies...)
			start := time.Now()
			took, errs := redistest.Crowd(len(test.want), func(int) (time.Duration, error) {
				err := l.Acquire(t.Context(), 1)
				return time.Since(start), err
			})
			require.Equal(t, make([]error, len(took)), errs)
			for i := range took {
				// The fake clock begins at a whole second, and a wait ends in whole
				// milliseconds.
				assert.InDelta(t, test.want[i], took[i], float64(2*time.Millisecond), "caller %d of %v", i, took)
			}
			assert.LessOrEqual(t, f.Scripts.Load(), test.calls)
		})
	}
}

// TestLimiter_CallerLeaves_PermitsAreRefunded: permits that arrive later return to each policy and
// to a limiter of Redisson's layout.
func TestLimiter_CallerLeaves_PermitsAreRefunded(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, f *fixture) {
		quota := f.client.Limiter("{t}:quota")
		require.NoError(t, quota.SetRate(t.Context(), rratelimiter.Rate{Permits: 10, Interval: time.Hour}))
		l := Join(New(f.client, "{t}:own", FixedWindow{10, time.Hour, false}, SlidingLog{10, time.Hour},
			SlidingWindow{10, time.Hour, 0},
			TokenBucket{10, 1, time.Hour}, LeakyBucket{10, 1, time.Hour}, Calendar{10, Year, nil}), quota)
		redistest.Result(t, l.Take, 2) // and the scripts are loaded
		require.NoError(t, l.Release(t.Context(), 1))

		for _, call := range []func(context.Context) error{
			func(ctx context.Context) error { return redistest.Err(l.TryAcquire(ctx, 3)) },
			func(ctx context.Context) error { return l.Acquire(ctx, 3) },
		} {
			f.Latency.Store(int64(100 * time.Millisecond))
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			assert.ErrorIs(t, call(ctx), context.DeadlineExceeded)
			cancel()
			time.Sleep(time.Second)
			f.Latency.Store(0)
			for i, d := range redistest.Peek(t, l) {
				assert.EqualValues(t, 9, d.Remaining, "policy %d", i)
			}
		}
		assert.NoError(t, l.Reset(t.Context()))
	})
}

// TestDenialCache_Policies_DeniesUntilAChange: the change is one by this Client.
func TestDenialCache_Policies_DeniesUntilAChange(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		client := rratelimiter.New(f.Conn, rratelimiter.WithDenialCache(time.Hour))
		l := New(client, "name", FixedWindow{5, time.Hour, false}, TokenBucket{10, 1, time.Hour})
		refused := func(permits int64) (rratelimiter.Decision, bool) {
			before := f.Scripts.Load()
			d := redistest.Result(t, l.Take, permits)
			require.False(t, d.Allowed)
			synctest.Wait()
			return d, f.Scripts.Load() == before
		}
		redistest.Result(t, l.Take, 4)
		first, memory := refused(2)
		assert.False(t, memory)
		time.Sleep(time.Minute)
		cached, memory := refused(2)
		assert.True(t, memory)
		first.RetryAfter -= time.Minute
		first.ResetAfter -= time.Minute
		assert.Equal(t, first, cached)
		before := f.Scripts.Load()
		each := redistest.Result(t, l.TakeEach, 2)
		assert.Equal(t, before, f.Scripts.Load(), "calls of Redis")
		assert.Equal(t, []rratelimiter.Decision{
			{Limit: 5, Remaining: 1, RetryAfter: cached.RetryAfter, ResetAfter: cached.RetryAfter},
			{Allowed: true, Limit: 10, Remaining: 6, ResetAfter: cached.ResetAfter},
		}, each)

		// A change of one of its keys, by another limiter with that key.
		require.NoError(t, Join(New(client, "name", FixedWindow{7, time.Hour, false})).Release(t.Context(), 4))
		assert.True(t, redistest.Result(t, l.Take, 2).Allowed)
	})
}

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
