package limit

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
)

// TestTake_SeveralPolicies_ReportsTheLongestDenial: if all grant, the fewest permits that are left.
func TestTake_SeveralPolicies_ReportsTheLongestDenial(t *testing.T) {
	b := newBench(t)
	b.set(b.now - b.now%1000)
	l := New(b.client, "name", FixedWindow{10, time.Second, false}, FixedWindow{15, time.Minute, false})
	for i, c := range []struct {
		after   time.Duration
		permits int64
		want    rratelimiter.Decision
	}{
		{0, 10, rratelimiter.Decision{Allowed: true, Limit: 10, ResetAfter: time.Minute}},
		{500 * ms, 1, rratelimiter.Decision{Limit: 10, RetryAfter: 500 * ms, ResetAfter: 59500 * ms}},
		{500 * ms, 6,
			rratelimiter.Decision{Limit: 15, Remaining: 5, RetryAfter: 59 * time.Second, ResetAfter: 59 * time.Second}},
		{0, 5, rratelimiter.Decision{Allowed: true, Limit: 15, ResetAfter: 59 * time.Second}},
	} {
		b.pass(c.after)
		assert.Equal(t, c.want, must(t, l.Take, c.permits), "call %d", i)
	}
}

func TestValidate_FieldsAtTheirBounds_AreAccepted(t *testing.T) {
	for _, p := range []Policy{
		SlidingWindow{1, time.Second, 2}, SlidingWindow{1, time.Second, 1000},
		Smooth{Permits: 1, Interval: time.Second, WarmUp: time.Second, ColdFactor: 1},
		Smooth{Permits: 1, Interval: time.Second, WarmUp: time.Second, ColdFactor: maxColdFactor},
	} {
		assert.NoError(t, Validate(p), "%+v", p)
	}
}

// TestLimiter_InvalidInput_IsRefusedUnsent: each error has a type, and Redis receives no command.
func TestLimiter_InvalidInput_IsRefusedUnsent(t *testing.T) {
	b := newBench(t)
	b.redis.SetError("a command was sent")
	ctx := t.Context()
	good := FixedWindow{1, time.Second, false}
	for name, l := range map[string]*Limiter{
		"a nil pointer":         New(b.client, "name", (*TokenBucket)(nil)),
		"a log of no permits":   New(b.client, "name", SlidingLog{0, time.Second}),
		"a log of no interval":  New(b.client, "name", SlidingLog{1, time.Microsecond}),
		"cells of no permits":   New(b.client, "name", SlidingWindow{0, time.Second, 10}),
		"cells of no interval":  New(b.client, "name", SlidingWindow{1, 0, 10}),
		"one cell":              New(b.client, "name", SlidingWindow{1, time.Second, 1}),
		"fewer cells than none": New(b.client, "name", SlidingWindow{1, time.Second, -10}),
		"too many cells":        New(b.client, "name", SlidingWindow{1, 1001 * time.Second, 1001}),
		"cells of a third":      New(b.client, "name", SlidingWindow{1, time.Second, 3}),
		"ten cells of 5 ms":     New(b.client, "name", SlidingWindow{1, 5 * ms, 0}),
		"two of the same cells": New(b.client, "name", SlidingWindow{1, time.Second, 0}, SlidingWindow{2, time.Second, 10}),
		"a day of no permits":   New(b.client, "name", Calendar{0, Day, nil}),
		"no unit":               New(b.client, "name", Calendar{1, 0, nil}),
		"a unit that is none":   New(b.client, "name", Calendar{1, Year + 1, time.UTC}),
		"two of the same day":   New(b.client, "name", Calendar{1, Day, nil}, Calendar{2, Day, time.UTC}),
		"no permits":            New(b.client, "name", FixedWindow{0, time.Second, false}),
		"too many permits":      New(b.client, "name", FixedWindow{1<<53 + 1, time.Second, false}),
		"no interval":           New(b.client, "name", FixedWindow{1, 0, false}),
		"half a millisecond":    New(b.client, "name", FixedWindow{1, 1500 * time.Microsecond, false}),
		"an interval too long":  New(b.client, "name", FixedWindow{1, math.MaxInt64 / ms * ms, false}),
		"a negative interval":   New(b.client, "name", TokenBucket{1, 1, -time.Second}),
		"no refill":             New(b.client, "name", TokenBucket{1, 0, time.Second}),
		"too much refill":       New(b.client, "name", TokenBucket{1, 1<<53 + 1, time.Second}),
		"no capacity":           New(b.client, "name", TokenBucket{0, 1, time.Second}),
		"no leak":               New(b.client, "name", LeakyBucket{1, 0, time.Second}),
		"the zero leaky bucket": New(b.client, "name", LeakyBucket{}),
		"the zero smooth":       New(b.client, "name", Smooth{}),
		"smooth, no interval":   New(b.client, "name", Smooth{Permits: 1}),
		"a negative burst":      New(b.client, "name", Smooth{1, time.Second, -time.Second, 0, 0}),
		"a negative warm-up":    New(b.client, "name", Smooth{1, time.Second, 0, -time.Second, 0}),
		"half a cold factor":    New(b.client, "name", Smooth{1, time.Second, 0, time.Second, 0.5}),
		"too cold a factor":     New(b.client, "name", Smooth{1, time.Second, 0, time.Second, 1e7}),
		"a factor of NaN":       New(b.client, "name", Smooth{1, time.Second, 0, time.Second, math.NaN()}),
		"a factor of infinity":  New(b.client, "name", Smooth{1, time.Second, 0, time.Second, math.Inf(1)}),
		"two smooth of one key": New(b.client, "name", Smooth{Permits: 1, Interval: time.Second},
			Smooth{Permits: 2, Interval: time.Second}),
		"two equal ones":        New(b.client, "name", good, good),
		"the second is invalid": New(b.client, "name", good, TokenBucket{}),
	} {
		assert.ErrorIs(t, errOf(l.TryAcquire(ctx, 1)), rratelimiter.ErrInvalidRate, name)
		assert.ErrorIs(t, l.Release(ctx, 1), rratelimiter.ErrInvalidRate, name)
		assert.ErrorIs(t, l.Reset(ctx), rratelimiter.ErrInvalidRate, name)
		assert.ErrorIs(t, errOf(l.Charge(ctx, 1)), rratelimiter.ErrInvalidRate, name)
		assert.ErrorIs(t, errOf(l.Peek(ctx)), rratelimiter.ErrInvalidRate, name)
	}
	l := New(b.client, "name", good, TokenBucket{5, 1, time.Second})
	for _, permits := range []int64{0, -1, math.MinInt64, 1 << 32, math.MaxInt64} {
		assert.ErrorIs(t, errOf(l.Take(ctx, permits)), rratelimiter.ErrInvalidPermits, permits)
		assert.ErrorIs(t, l.Acquire(ctx, permits), rratelimiter.ErrInvalidPermits, permits)
	}
	for _, permits := range []int64{2, 1<<32 - 1, 1 << 32, math.MaxInt64} {
		assert.ErrorIs(t, errOf(l.Take(ctx, permits)), rratelimiter.ErrPermitsExceedRate, permits)
	}
	assert.ErrorIs(t, l.Release(ctx, -1), rratelimiter.ErrInvalidPermits)
	assert.ErrorIs(t, errOf(l.Charge(ctx, 0)), rratelimiter.ErrInvalidPermits)
	assert.ErrorIs(t, errOf(New(b.client, "", good).Take(ctx, 1)), rratelimiter.ErrInvalidName)
	for _, none := range []*Limiter{New(nil, "name", good), New(new(rratelimiter.Client), "name", good),
		New(rratelimiter.New(nil), "name", good), new(Limiter)} {
		assert.ErrorIs(t, errOf(none.Take(ctx, 1)), rratelimiter.ErrNoClient)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	assert.ErrorIs(t, errOf(l.Take(ended, 1)), context.Canceled)
	assert.NoError(t, l.Release(ctx, 0), "does nothing")
}

// TestNew_MostPolicies_FitInAScript: Lua limits the locals of a script.
func TestNew_MostPolicies_FitInAScript(t *testing.T) {
	b := newBench(t)
	for _, kind := range []func(time.Duration) Policy{
		func(d time.Duration) Policy { return SlidingLog{5, d} },
		func(d time.Duration) Policy { return SlidingWindow{5, d, 0} },
		func(d time.Duration) Policy { return Calendar{5, Day, time.FixedZone(d.String(), 0)} },
	} {
		var all []Policy
		for i := range policy.MaxJoined {
			all = append(all, kind(time.Duration(i+1)*time.Second))
		}
		l := New(b.client, "name", all...)
		must(t, l.Charge, 1)
		for _, d := range must(t, l.TakeEach, 1) {
			assert.EqualValues(t, 3, d.Remaining)
		}
		require.NoError(t, l.Release(t.Context(), 2))
		assert.Empty(t, b.redis.Keys())
	}
}

// TestReset_SlotMoves_AsksAgain: for a quarter of a second, as all other calls do.
func TestReset_SlotMoves_AsksAgain(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := New(b.client, "name", FixedWindow{5, time.Hour, false}, TokenBucket{5, 1, time.Hour})
		must(b, l.Take, 5)
		b.Redis.SetError("TRYAGAIN Multiple keys request during rehashing of slot")
		start := time.Now()
		require.ErrorContains(b, l.Reset(b.Context()), "TRYAGAIN")
		assert.Equal(b, 255*ms, time.Since(start))
		time.AfterFunc(100*ms, func() { b.Redis.SetError("") })
		require.NoError(b, l.Reset(b.Context()))
		assert.Empty(b, b.Redis.Keys())
	})
}
