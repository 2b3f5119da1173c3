package limit

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestTake_SeveralPolicies_ReportsTheLongestDenial: if all grant, the fewest permits that are left.
func TestTake_SeveralPolicies_ReportsTheLongestDenial(t *testing.T) {
	f := newClocked(t)
	f.set(f.now - f.now%1000)
	l := New(f.client, "name", FixedWindow{10, time.Second, false}, FixedWindow{15, time.Minute, false})
	for i, c := range []struct {
		after   time.Duration
		permits int64
		want    rratelimiter.Decision
	}{
		{0, 10, rratelimiter.Decision{Allowed: true, Limit: 10, ResetAfter: time.Minute}},
		{500 * time.Millisecond, 1, rratelimiter.Decision{Limit: 10, RetryAfter: 500 * time.Millisecond,
			ResetAfter: 59500 * time.Millisecond}},
		{500 * time.Millisecond, 6,
			rratelimiter.Decision{Limit: 15, Remaining: 5, RetryAfter: 59 * time.Second, ResetAfter: 59 * time.Second}},
		{0, 5, rratelimiter.Decision{Allowed: true, Limit: 15, ResetAfter: 59 * time.Second}},
	} {
		f.advance(c.after)
		assert.Equal(t, c.want, redistest.Result(t, l.Take, c.permits), "call %d", i)
	}
}

func TestValidate_FieldsAtTheirBounds_AreAccepted(t *testing.T) {
	for _, p := range []Policy{
		SlidingWindow{1, time.Second, 2}, SlidingWindow{1, time.Second, 1000},
	} {
		assert.NoError(t, Validate(p), "%+v", p)
	}
}

// TestLimiter_InvalidInput_IsRefusedUnsent: each error has a type, and Redis receives no command.
func TestLimiter_InvalidInput_IsRefusedUnsent(t *testing.T) {
	f := newClocked(t)
	f.redis.SetError("a command was sent")
	ctx := t.Context()
	good := FixedWindow{1, time.Second, false}
	for name, l := range map[string]*Limiter{
		"a nil pointer":         New(f.client, "name", (*TokenBucket)(nil)),
		"a log of no permits":   New(f.client, "name", SlidingLog{0, time.Second}),
		"a log of no interval":  New(f.client, "name", SlidingLog{1, time.Microsecond}),
		"cells of no permits":   New(f.client, "name", SlidingWindow{0, time.Second, 10}),
		"cells of no interval":  New(f.client, "name", SlidingWindow{1, 0, 10}),
		"one cell":              New(f.client, "name", SlidingWindow{1, time.Second, 1}),
		"fewer cells than none": New(f.client, "name", SlidingWindow{1, time.Second, -10}),
		"too many cells":        New(f.client, "name", SlidingWindow{1, 1001 * time.Second, 1001}),
		"cells of a third":      New(f.client, "name", SlidingWindow{1, time.Second, 3}),
		"ten cells of 5 ms":     New(f.client, "name", SlidingWindow{1, 5 * time.Millisecond, 0}),
		"two of the same cells": New(f.client, "name", SlidingWindow{1, time.Second, 0}, SlidingWindow{2, time.Second, 10}),
		"a pause of no length":  New(f.client, "name", good, Pause{}),
		"a pause below 0":       New(f.client, "name", good, Pause{-time.Second}),
		"a pause of half a ms":  New(f.client, "name", good, Pause{500 * time.Microsecond}),
		"two pauses":            New(f.client, "name", good, Pause{time.Second}, Pause{time.Hour}),
		"a day of no permits":   New(f.client, "name", Calendar{0, Day, nil}),
		"no unit":               New(f.client, "name", Calendar{1, 0, nil}),
		"a unit that is none":   New(f.client, "name", Calendar{1, Year + 1, time.UTC}),
		"two of the same day":   New(f.client, "name", Calendar{1, Day, nil}, Calendar{2, Day, time.UTC}),
		"no permits":            New(f.client, "name", FixedWindow{0, time.Second, false}),
		"too many permits":      New(f.client, "name", FixedWindow{1<<53 + 1, time.Second, false}),
		"no interval":           New(f.client, "name", FixedWindow{1, 0, false}),
		"half a millisecond":    New(f.client, "name", FixedWindow{1, 1500 * time.Microsecond, false}),
		"an interval too long": New(f.client, "name", FixedWindow{1,
			math.MaxInt64 / time.Millisecond * time.Millisecond, false}),
		"a negative interval":   New(f.client, "name", TokenBucket{1, 1, -time.Second}),
		"no refill":             New(f.client, "name", TokenBucket{1, 0, time.Second}),
		"too much refill":       New(f.client, "name", TokenBucket{1, 1<<53 + 1, time.Second}),
		"no capacity":           New(f.client, "name", TokenBucket{0, 1, time.Second}),
		"no leak":               New(f.client, "name", LeakyBucket{1, 0, time.Second}),
		"the zero leaky bucket": New(f.client, "name", LeakyBucket{}),
		"the zero smooth":       New(f.client, "name", Smooth{}),
		"smooth, no interval":   New(f.client, "name", Smooth{Permits: 1}),
		"a negative burst":      New(f.client, "name", Smooth{1, time.Second, -time.Second, 0}),
		"a negative warm-up":    New(f.client, "name", Smooth{1, time.Second, 0, -time.Second}),
		"two smooth of one key": New(f.client, "name", Smooth{Permits: 1, Interval: time.Second},
			Smooth{Permits: 2, Interval: time.Second}),
		"two equal ones":        New(f.client, "name", good, good),
		"the second is invalid": New(f.client, "name", good, TokenBucket{}),
	} {
		assert.ErrorIs(t, redistest.Err(l.TryAcquire(ctx, 1)), rratelimiter.ErrInvalidRate, name)
		assert.ErrorIs(t, l.Release(ctx, 1), rratelimiter.ErrInvalidRate, name)
		assert.ErrorIs(t, l.Reset(ctx), rratelimiter.ErrInvalidRate, name)
		assert.ErrorIs(t, redistest.Err(l.Charge(ctx, 1)), rratelimiter.ErrInvalidRate, name)
		assert.ErrorIs(t, redistest.Err(l.Peek(ctx)), rratelimiter.ErrInvalidRate, name)
		assert.ErrorIs(t, l.Pause(ctx, time.Second), rratelimiter.ErrInvalidRate, name)
		_, _, err := l.TakeUpTo(ctx, 1)
		assert.ErrorIs(t, err, rratelimiter.ErrInvalidRate, name)
	}
	l := New(f.client, "name", good, TokenBucket{5, 1, time.Second})
	for _, permits := range []int64{0, -1, math.MinInt64, 1 << 32, math.MaxInt64} {
		assert.ErrorIs(t, redistest.Err(l.Take(ctx, permits)), rratelimiter.ErrInvalidPermits, permits)
		assert.ErrorIs(t, l.Acquire(ctx, permits), rratelimiter.ErrInvalidPermits, permits)
	}
	for _, permits := range []int64{2, 1<<32 - 1, 1 << 32, math.MaxInt64} {
		assert.ErrorIs(t, redistest.Err(l.Take(ctx, permits)), rratelimiter.ErrPermitsExceedRate, permits)
	}
	for _, permits := range []int64{0, -1, engine.MaxPermits + 1} {
		_, _, err := l.TakeUpTo(ctx, permits)
		assert.ErrorIs(t, err, rratelimiter.ErrInvalidPermits, permits)
	}
	assert.ErrorIs(t, l.Release(ctx, -1), rratelimiter.ErrInvalidPermits)
	assert.ErrorIs(t, redistest.Err(l.Charge(ctx, 0)), rratelimiter.ErrInvalidPermits)
	assert.ErrorIs(t, redistest.Err(New(f.client, "", good).Take(ctx, 1)), rratelimiter.ErrInvalidName)
	for _, none := range []*Limiter{New(nil, "name", good), New(new(rratelimiter.Client), "name", good),
		New(rratelimiter.New(nil), "name", good), new(Limiter)} {
		assert.ErrorIs(t, redistest.Err(none.Take(ctx, 1)), rratelimiter.ErrNoClient)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	assert.ErrorIs(t, redistest.Err(l.Take(ended, 1)), context.Canceled)
	assert.NoError(t, l.Release(ctx, 0), "does nothing")
}

// TestNew_MostPolicies_FitInAScript: Lua limits the locals of a script.
func TestNew_MostPolicies_FitInAScript(t *testing.T) {
	f := newClocked(t)
	for _, kind := range []func(time.Duration) Policy{
		func(d time.Duration) Policy { return SlidingLog{5, d} },
		func(d time.Duration) Policy { return SlidingWindow{5, d, 0} },
		func(d time.Duration) Policy { return Calendar{5, Day, time.FixedZone(d.String(), 0)} },
	} {
		var all []Policy
		for i := range policy.MaxJoined {
			all = append(all, kind(time.Duration(i+1)*time.Second))
		}
		l := New(f.client, "name", all...)
		redistest.Result(t, l.Charge, 1)
		for _, d := range redistest.Result(t, l.TakeEach, 1) {
			assert.EqualValues(t, 3, d.Remaining)
		}
		require.NoError(t, l.Release(t.Context(), 2))
		assert.Empty(t, f.redis.Keys())
	}
}

// TestReset_SlotMoves_AsksAgain: for a quarter of a second, as all other calls do.
func TestReset_SlotMoves_AsksAgain(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.client, "name", FixedWindow{5, time.Hour, false}, TokenBucket{5, 1, time.Hour})
		redistest.Result(t, l.Take, 5)
		f.Redis.SetError("TRYAGAIN Multiple keys request during rehashing of slot")
		start := time.Now()
		require.ErrorContains(t, l.Reset(t.Context()), "TRYAGAIN")
		assert.Equal(t, 255*time.Millisecond, time.Since(start))
		time.AfterFunc(100*time.Millisecond, func() { f.Redis.SetError("") })
		require.NoError(t, l.Reset(t.Context()))
		assert.Empty(t, f.Redis.Keys())
	})
}
