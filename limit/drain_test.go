package limit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func drainTo(t testing.TB, l *Limiter, leave int64) rratelimiter.Decision {
	t.Helper()
	d := redistest.Result(t, l.Drain, leave)
	return d
}

// TestDrain_EachPolicy_LeavesAtMostSoMany: as a grant of the others would, and it never adds.
func TestDrain_EachPolicy_LeavesAtMostSoMany(t *testing.T) {
	for _, p := range everyPolicy {
		t.Run(fmt.Sprintf("%T%+v", p, p), func(t *testing.T) {
			f, l := clockedLimiter(t, p)
			m, most := modelOf(p)
			require.True(t, redistest.Result(t, l.TryAcquire, 1))
			m.Charge(f.now, 1)
			d, _ := policy.Of(p)
			for _, leave := range []int64{20, 9, 4, 7, 4, 0, 0} {
				if free := m.Free(f.now); free > leave && d.Refill != policy.Held {
					m.Charge(f.now, free-leave)
				}
				want := decision(m, most, f.now, 1, m.Wait(f.now, 1) == 0)
				if d.Refill == policy.Held {
					assert.EqualValues(t, 9, drainTo(t, l, leave).Remaining)
					continue
				}
				keys, before := f.redis.Keys(), f.redis.Dump()
				assert.Equal(t, want, drainTo(t, l, leave), leave)
				if leave >= 9 || leave == 7 {
					assert.Equal(t, keys, f.redis.Keys())
					assert.Equal(t, before, f.redis.Dump(), "it writes nothing")
				}
			}
		})
	}
}

// TestDrain_SeveralPolicies_LoseTheSame, and each limiter of a Join that has more.
func TestDrain_SeveralPolicies_LoseTheSame(t *testing.T) {
	f := newClocked(t)
	f.set(begin - begin%1000)
	hour := New(f.client, "{x}:hour", FixedWindow{10, time.Hour, false}, SlidingLog{100, 24 * time.Hour},
		InFlight{5, time.Minute, false}, Pause{time.Minute}, Penalty{5, time.Minute, time.Minute, false})
	java := f.client.Limiter("{x}:java", rratelimiter.InitialRate(rratelimiter.Rate{Permits: 50, Interval: time.Hour}))
	few := New(f.client, "{x}:few", TokenBucket{2, 1, time.Hour})
	all := Join(hour, java, few)
	assert.Equal(t, []int64{10, 100, 5, maxPermits, maxPermits, 50, 2}, remainingOf(t, all))
	d := drainTo(t, all, 3)
	assert.Equal(t, rratelimiter.Decision{Allowed: true, Limit: 2, Remaining: 2, ResetAfter: 24 * time.Hour}, d)
	assert.Equal(t, []int64{3, 93, 5, maxPermits, maxPermits, 3, 2}, remainingOf(t, all))
	for range 2 {
		d = drainTo(t, all, 0)
		assert.False(t, d.Allowed)
		assert.Equal(t, []int64{0, 90, 5, maxPermits, maxPermits, 0, 0}, remainingOf(t, all))
	}
	f.advance(time.Hour)
	assert.Equal(t, []int64{10, 90, 5, maxPermits, maxPermits, 50, 1}, remainingOf(t, all))
}

// TestDrain_Redisson_ExpiredGrants_AreCountedFirst: more than a page of them.
func TestDrain_Redisson_ExpiredGrants_AreCountedFirst(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		rate := rratelimiter.InitialRate(rratelimiter.Rate{Permits: 2000, Interval: time.Hour})
		for name, drain := range map[string]func(l *rratelimiter.Limiter) (rratelimiter.Decision, error){
			"joined": func(l *rratelimiter.Limiter) (rratelimiter.Decision, error) { return Join(l).Drain(t.Context(), 7) },
			"alone":  func(l *rratelimiter.Limiter) (rratelimiter.Decision, error) { return l.Drain(t.Context(), 7) },
		} {
			l := f.client.Limiter(name, rate)
			require.True(t, redistest.Result(t, l.TryAcquire, 1))
			f.fillShared(name, 1500)
			time.Sleep(time.Hour)
			d, err := drain(l)
			require.NoError(t, err)
			assert.EqualValues(t, 7, d.Remaining, name)
			assert.EqualValues(t, 7, redistest.Available(t, l), name)
		}
	})
}

func TestDrain_InvalidNumber_IsRefused(t *testing.T) {
	f, l := clockedLimiter(t, FixedWindow{10, time.Hour, false})
	assert.ErrorIs(t, redistest.Err(l.Drain(t.Context(), -1)), rratelimiter.ErrInvalidPermits)
	keyed := NewKeyed(f.client, "user", FixedWindow{10, time.Hour, false})
	d, err := keyed.Drain(t.Context(), "7", 4)
	require.NoError(t, err)
	assert.EqualValues(t, 4, d.Remaining)
	assert.EqualValues(t, 4, redistest.Peek(t, keyed.Limiter("7"))[0].Remaining)
}

// TestDrain_Prefetch_IsReturnedFirst: permits that this Client has prefetched are drained too.
func TestDrain_Prefetch_IsReturnedFirst(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		client := rratelimiter.New(f.Conn, rratelimiter.WithPrefetch(time.Second))
		l := New(client, "name", FixedWindow{1000, time.Minute, false})
		for range 200 {
			require.True(t, redistest.Result(t, l.TryAcquire, 1))
		}
		drainTo(t, l, 5)
		granted := 0
		for range 20 {
			if redistest.Result(t, l.TryAcquire, 1) {
				granted++
			}
		}
		assert.Equal(t, 5, granted)
	})
}
