package limit

import (
	"context"
	"slices"
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

// shareOf has processes with five waiting callers each share a policy for four seconds. It returns what each
// process got.
func shareOf(t *testing.T, limiters ...*Limiter) []int64 {
	ctx, end := context.WithTimeout(t.Context(), 4*time.Second)
	defer end()
	var callers sync.WaitGroup
	shares := make([]int64, len(limiters))
	for i, l := range limiters {
		for range 5 {
			callers.Go(func() {
				for l.Acquire(ctx, 1) == nil {
					atomic.AddInt64(&shares[i], 1)
				}
			})
		}
	}
	callers.Wait()
	return shares
}

// TestAcquire_SeveralProcessesWait_ShareCallsAndPermits: a permit costs at most a call per process, and
// the shares stay within a factor of three.
func TestAcquire_SeveralProcessesWait_ShareCallsAndPermits(t *testing.T) {
	eachPolicy(t, sharedBuckets[:2], func(t *testing.T, f *fixture, p Policy) {
		processes := make([]*Limiter, 5)
		for i := range processes {
			processes[i] = New(rratelimiter.New(f.Conn), "name", p)
		}
		shares := shareOf(t, processes...)
		var granted int64
		for _, share := range shares {
			granted += share
		}
		assert.GreaterOrEqual(t, granted, int64(4*50*0.97))
		assert.LessOrEqual(t, f.Scripts.Load(), (granted+2)*5)
		assert.LessOrEqual(t, slices.Max(shares), 3*slices.Min(shares), "%v", shares)
	})
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
			shares := shareOf(t, New(near, "name", p), New(late, "name", p))
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
