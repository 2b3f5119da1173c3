package limit

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// paused returns limiters of a name on Clients of their own.
func paused(f *fixture, opts ...rratelimiter.Option) (one, other *Limiter) {
	open := func() *Limiter {
		return New(rratelimiter.New(f.Conn, opts...), "name", FixedWindow{100, time.Second, false}, Pause{time.Hour})
	}
	return open(), open()
}

// TestPause_Waiters_WaitForItsEnd, also those of another Client that have waited for permits when it
// begins. A call that is under way is granted.
func TestPause_Waiters_WaitForItsEnd(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		one, other := paused(f)
		begin := time.Now()
		require.True(t, redistest.Result(t, other.TryAcquire, 100))
		f.Latency.Store(int64(50 * time.Millisecond))
		var all sync.WaitGroup
		wait := func(l *Limiter, timeout time.Duration, want bool, at time.Duration) {
			all.Go(func() {
				ok, err := l.TryAcquireWithin(t.Context(), 1, timeout)
				assert.NoError(t, err)
				assert.Equal(t, want, ok)
				assert.Equal(t, at, time.Since(begin).Truncate(100*time.Millisecond))
			})
		}
		wait(one, 5*time.Second, true, time.Second)
		time.Sleep(1075 * time.Millisecond) // its call is under way
		pauseFor(t, other, 10*time.Second)
		wait(other, 9*time.Second, false, 1200*time.Millisecond)
		wait(one, time.Minute, true, 11100*time.Millisecond)
		all.Wait()
	})
}

// TestPause_EndedByAnotherClient_WaitersLearnIt within seconds, and those of the Client itself at once.
func TestPause_EndedByAnotherClient_WaitersLearnIt(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		one, other := paused(f)
		pauseFor(t, one, time.Hour)
		begin := time.Now()
		var all sync.WaitGroup
		for l, within := range map[*Limiter]time.Duration{one: 0, other: 5 * time.Second} {
			all.Go(func() {
				assert.NoError(t, l.Acquire(t.Context(), 1))
				assert.LessOrEqual(t, time.Since(begin), time.Minute+within)
			})
		}
		time.Sleep(time.Minute)
		calls := f.Scripts.Load()
		assert.LessOrEqual(t, calls, int64(2*60/5+5))
		pauseFor(t, one, 0)
		all.Wait()
	})
}

// TestPause_DenialCache_RemembersIt until its end, and forgets it when this Client ends it.
func TestPause_DenialCache_RemembersIt(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		one, other := paused(f, rratelimiter.WithDenialCache(10*time.Second))
		pauseFor(t, one, 30*time.Second)
		deny := func(l *Limiter, rest time.Duration, calls int64) {
			t.Helper()
			before := f.Scripts.Load()
			for range 5 {
				d := redistest.Result(t, l.Take, 1)
				assert.False(t, d.Allowed)
				assert.Equal(t, rest, d.RetryAfter)
				synctest.Wait() // it is remembered once the caller has it
			}
			assert.Equal(t, calls, f.Scripts.Load()-before, "calls")
		}
		deny(one, 30*time.Second, 1)
		deny(other, 30*time.Second, 1)
		time.Sleep(9 * time.Second)
		deny(other, 21*time.Second, 0)
		time.Sleep(time.Second)
		deny(other, 20*time.Second, 1)
		pauseFor(t, other, 40*time.Second)
		deny(other, 40*time.Second, 1)
		pauseFor(t, other, 0)
		assert.True(t, redistest.Result(t, other.TryAcquire, 1))
		pauseFor(t, other, 3*time.Second)
		deny(other, 3*time.Second, 1)
		time.Sleep(3 * time.Second)
		assert.True(t, redistest.Result(t, other.TryAcquire, 1), "not longer than the pause")
	})
}

// TestPause_Prefetch_EndsWithIt in the Client that pauses, and in another one after its length.
func TestPause_Prefetch_EndsWithIt(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		open := func() *Limiter {
			return New(rratelimiter.New(f.Conn, rratelimiter.WithPrefetch(100*time.Millisecond)), "name",
				FixedWindow{10_000, time.Hour, false}, Pause{time.Hour})
		}
		one, other := open(), open()
		for _, l := range []*Limiter{other, one} {
			require.Equal(t, 2000, f.CountGranted(l, 2000, 100*time.Microsecond))
			before := f.Scripts.Load()
			require.Equal(t, 100, f.CountGranted(l, 100, 100*time.Microsecond))
			require.LessOrEqual(t, f.Scripts.Load()-before, int64(2), "it prefetches")
		}
		pauseFor(t, one, 10*time.Second)
		assert.Zero(t, f.CountGranted(one, 10, time.Millisecond))
		time.Sleep(100 * time.Millisecond)
		assert.Zero(t, f.CountGranted(other, 10, time.Millisecond))
		time.Sleep(time.Second)
		window := New(rratelimiter.New(f.Conn), "name", FixedWindow{10_000, time.Hour, false})
		assert.EqualValues(t, 10_000-4200, peekAll(t, window)[0].Remaining, "unused permits were returned")
		time.Sleep(9 * time.Second)
		assert.Equal(t, 500, f.CountGranted(one, 500, time.Millisecond))
		time.Sleep(time.Second)
	})
}

// TestPause_ClocksDiffer_ItsLengthIsKept: it ends by the clock of Redis.
func TestPause_ClocksDiffer_ItsLengthIsKept(t *testing.T) {
	f := newClocked(t)
	clock := rratelimiter.WithClock(func() time.Time { return time.UnixMicro(f.clock.Load()).Add(-time.Hour) })
	policies := []Policy{FixedWindow{100, time.Second, false}, Pause{time.Hour}}
	one, behind := New(f.client, "name", policies...), New(rratelimiter.New(f.connect(), clock), "name", policies...)
	for _, of := range []*Limiter{one, behind} {
		pauseFor(t, of, 30*time.Second)
		for _, l := range []*Limiter{one, behind} {
			assert.Equal(t, 30*time.Second, redistest.Result(t, l.Take, 1).RetryAfter)
		}
		f.advance(30 * time.Second)
		for _, l := range []*Limiter{one, behind} {
			assert.True(t, redistest.Result(t, l.TryAcquire, 1))
		}
	}
}
