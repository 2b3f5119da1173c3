package fallback_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/fallback"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestLimiter_StallShorterThanDeadline_IsNoFailure: Redis has denied the permits, and then stalls. The
// caller's timeout ends meanwhile.
func TestLimiter_StallShorterThanDeadline_IsNoFailure(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		inner := limit.New(rratelimiter.New(f.Conn), "api", limit.SlidingLog{Permits: 1, Interval: 40 * time.Millisecond})
		l := fallback.New(inner, fallback.OnFailure(limit.Open))
		require.NoError(t, redistest.Err(l.Acquire(t.Context(), 1)))
		time.Sleep(time.Second)
		require.NoError(t, redistest.Err(l.Acquire(t.Context(), 1)))
		f.Latency.Store(int64(4 * time.Millisecond))
		time.AfterFunc(3*time.Millisecond, func() { f.Latency.Store(int64(100 * time.Millisecond)) })
		allowed, from, err := l.TryAcquireWithin(t.Context(), 1, 50*time.Millisecond)
		assert.NoError(t, err)
		assert.False(t, allowed)
		assert.Equal(t, fallback.Redis, from)
		f.Latency.Store(0)
		time.Sleep(time.Minute)
	})
}

// TestLimiter_AcquireWithShortContexts_FindsTheOutage: each context ends before the Deadline.
func TestLimiter_AcquireWithShortContexts_FindsTheOutage(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		window := limit.FixedWindow{Permits: 100, Interval: time.Second}
		l := fallback.New(limit.New(rratelimiter.New(f.Conn), "api", window), fallback.OnFailure(limit.Open))
		from, err := l.Acquire(t.Context(), 1)
		assert.Equal(t, fallback.Redis, from)
		assert.NoError(t, err)
		f.Latency.Store(int64(time.Minute))
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			from, err = l.Acquire(ctx, 1)
			cancel()
		}
		assert.NoError(t, err)
		assert.Equal(t, fallback.Mode, from)
		f.Latency.Store(0)
		time.Sleep(5 * time.Minute)
	})
}

type ownType struct{ *rratelimiter.Limiter }

// TestNew_Local_NeedsThePoliciesOfEachMember: an InitialRate of a Limiter is one, also in a Join.
func TestNew_Local_NeedsThePoliciesOfEachMember(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		client, local := rratelimiter.New(f.Conn), fallback.OnFailure(limit.Local(0.5))
		minute := rratelimiter.InitialRate(rratelimiter.Rate{Permits: 10, Interval: time.Minute})
		window := limit.New(client, "{a}", limit.FixedWindow{Permits: 20, Interval: time.Minute})
		l := fallback.New(limit.Join(client.Limiter("{a}java", minute), window), local)
		f.Redis.SetError("LOADING")
		for _, want := range []bool{true, true, true, false} {
			allowed, from, _ := l.TryAcquire(t.Context(), 1)
			assert.Equal(t, want, allowed, from)
		}
		open := fallback.New(limit.Join(client.Limiter("{a}java", minute), window), fallback.OnFailure(limit.Open))
		allowed, _, _ := open.TryAcquire(t.Context(), 11)
		assert.True(t, allowed, "the rate in Redis may be above the initial rate")
		f.Redis.SetError("")
		assert.Panics(t, func() { fallback.New(limit.Join(client.Limiter("{a}java"), window), local) })
		assert.Panics(t, func() { fallback.New(ownType{client.Limiter("java", minute)}, local) })
		time.Sleep(5 * time.Minute)
	})
}
