package limit

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// sharedBuckets are policies whose permits come free one after another, 50 a second.
var sharedBuckets = []Policy{TokenBucket{10, 50, time.Second}, LeakyBucket{1, 50, time.Second},
	Smooth{Permits: 50, Interval: time.Second}}

// shareOf has two processes with waiting callers share a policy, and returns what each got.
func shareOf(t *testing.T, limiters [2]*Limiter) (shares [2]int64) {
	ctx, end := context.WithTimeout(t.Context(), 4*time.Second)
	defer end()
	var callers sync.WaitGroup
	var counts [2]atomic.Int64
	for i, l := range limiters {
		for range 5 {
			callers.Go(func() {
				for l.Acquire(ctx, 1) == nil {
					counts[i].Add(1)
				}
			})
		}
	}
	callers.Wait()
	return [2]int64{counts[0].Load(), counts[1].Load()}
}

// TestAcquire_OneProcessIsLater_GetsAShare: its clock is behind by as much as those of hosts usually are, or
// its calls arrive or are dated later.
func TestAcquire_OneProcessIsLater_GetsAShare(t *testing.T) {
	behind := func(d time.Duration) rratelimiter.Option {
		return rratelimiter.WithClock(func() time.Time { return time.Now().Add(-d) })
	}
	for name, test := range map[string]struct {
		near, late []rratelimiter.Option
		latency    time.Duration // of the late one's replies
	}{
		"its clock is 0.1 ms behind": {nil, []rratelimiter.Option{behind(100 * time.Microsecond)}, 0},
		"its clock is 1 ms behind":   {nil, []rratelimiter.Option{behind(time.Millisecond)}, 0},
		"it is farther":              {nil, nil, time.Millisecond},
		"it is farther, and the server dates": {[]rratelimiter.Option{rratelimiter.WithServerTime()},
			[]rratelimiter.Option{rratelimiter.WithServerTime()}, time.Millisecond},
	} {
		eachPolicy(t, sharedBuckets, func(t *testing.T, f *fixture, p Policy) {
			conn, latency := f.slowReplies()
			latency.Store(int64(test.latency))
			near, late := rratelimiter.New(f.Conn, test.near...), rratelimiter.New(conn, test.late...)
			shares := shareOf(t, [2]*Limiter{New(near, "name", p), New(late, "name", p)})
			assert.LessOrEqual(t, shares[0], 5*shares[1], "%T, %s: %v", p, name, shares)
		})
	}
}

// TestTryAcquireWithin_ClockIsBehind_IsNotDeniedAtOnce: a permit will be free within the timeout, also by
// the state that the other Client leaves.
func TestTryAcquireWithin_ClockIsBehind_IsNotDeniedAtOnce(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		p := TokenBucket{10, 50, time.Second}
		behind := rratelimiter.WithClock(func() time.Time { return time.Now().Add(-time.Second) })
		late := New(rratelimiter.New(f.Conn, behind), "name", p)
		l := New(f.client, "name", p)
		ok, err := l.TryAcquire(t.Context(), 10)
		require.NoError(t, err)
		require.True(t, ok)
		go func() {
			time.Sleep(100 * time.Millisecond)
			_, _ = l.TryAcquire(t.Context(), 1) // 4 are left
		}()
		start := time.Now()
		ok, err = late.TryAcquireWithin(t.Context(), 1, 500*time.Millisecond)
		require.NoError(t, err)
		assert.True(t, ok, "denied after %v", time.Since(start))
	})
}

// TestAcquire_AnotherProcessResets_WaitsForItsTime: no call of another process wakes a caller.
func TestAcquire_AnotherProcessResets_WaitsForItsTime(t *testing.T) {
	eachPolicy(t, []Policy{FixedWindow{1, time.Minute, false}, SlidingLog{1, time.Minute}},
		func(t *testing.T, f *fixture, p Policy) {
			l := New(f.client, "name", p)
			require.NoError(t, l.Acquire(t.Context(), 1))
			begun := time.Now()
			var caller sync.WaitGroup
			caller.Go(func() { assert.NoError(t, l.Acquire(t.Context(), 1)) })
			time.Sleep(7500 * time.Millisecond)
			require.NoError(t, New(rratelimiter.New(f.Conn), "name", p).Reset(t.Context()))
			caller.Wait()
			assert.InDelta(t, time.Minute, time.Since(begun), float64(100*time.Millisecond))
		})
}
