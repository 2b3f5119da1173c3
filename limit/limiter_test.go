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
	f, l := clockedLimiter(t, FixedWindow{10, time.Second, false}, FixedWindow{15, time.Minute, false})
	f.set(f.now - f.now%1000)
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

// TestTakeUpTo_SeveralPolicies_GrantTheLeast: each takes the same number, a joined limiter of
// Redisson's layout too.
func TestTakeUpTo_SeveralPolicies_GrantTheLeast(t *testing.T) {
	f := newClocked(t)
	quota := f.client.Limiter("quota")
	require.NoError(t, quota.SetRate(t.Context(), rratelimiter.Rate{Permits: 5, Interval: time.Hour}))
	redistest.Result(t, quota.TryAcquire, 1)
	l := Join(New(f.client, "name", FixedWindow{10, time.Hour, false}, TokenBucket{7, 1, time.Hour}), quota)
	for _, want := range []int64{4, 0} {
		granted, d := takeUpTo(t, l, engine.MaxPermits)
		assert.Equal(t, want, granted)
		assert.EqualValues(t, 5, d.Limit)
		assert.Equal(t, want == 0, d.RetryAfter > 0)
		assert.Equal(t, []int64{6, 3, 0}, remainingOf(t, l))
	}
	forecast := f.ask(l, engine.Ask{Permits: 1, Detail: true}).Forecast
	assert.EqualValues(t, 5, forecast.Limit(), "a queue denies larger requests")
}

// TestTakeUpTo_CallersShareACall_GrantAllThatIsFree: one of them gets a part of what it wants.
func TestTakeUpTo_CallersShareACall_GrantAllThatIsFree(t *testing.T) {
	f := newClocked(t)
	var asks []engine.Ask
	for range 5 {
		upTo := engine.Ask{Permits: 1, UpTo: 7, Detail: true}
		asks = append(asks, upTo, upTo, upTo, engine.Ask{Permits: 2})
	}
	var granted []int64
	for _, r := range f.ask(New(f.client, "name", FixedWindow{50, time.Hour, false}), asks...).Requests {
		granted = append(granted, r.Granted)
	}
	assert.Equal(t, []int64{7, 7, 7, 2, 7, 7, 7, 2, 4}, granted[:9])
	assert.Equal(t, make([]int64, 11), granted[9:])
}

// invalidPolicies are lists that no limiter can have.
func invalidPolicies() [][]Policy {
	const second = time.Second
	many := make([]Policy, policy.MaxJoined+1)
	for i := range many {
		many[i] = FixedWindow{1, time.Duration(i+1) * second, false}
	}
	window := FixedWindow{1, second, false}
	return [][]Policy{
		{}, {nil}, {(*TokenBucket)(nil)}, {&window}, many,
		{window, window}, {window, FixedWindow{2, second, false}}, {window, TokenBucket{}},
		{FixedWindow{0, second, false}}, {FixedWindow{1<<53 + 1, second, false}},
		{FixedWindow{1, 0, false}}, {FixedWindow{1, 1500 * time.Microsecond, false}},
		{FixedWindow{1, math.MaxInt64 / time.Millisecond * time.Millisecond, false}},
		{Calendar{0, Day, nil}}, {Calendar{1, 0, nil}}, {Calendar{1, Year + 1, time.UTC}},
		{Calendar{1, Day, nil}, Calendar{2, Day, time.UTC}},
		{SlidingLog{0, second}}, {SlidingLog{1, time.Microsecond}},
		{SlidingWindow{0, second, 10}}, {SlidingWindow{1, 0, 10}},
		{SlidingWindow{1, second, 1}}, {SlidingWindow{1, second, -10}}, {SlidingWindow{1, 1001 * second, 1001}},
		{SlidingWindow{1, second, 3}}, {SlidingWindow{1, 5 * time.Millisecond, 0}}, // cells of parts of a millisecond
		{SlidingWindow{1, second, 0}, SlidingWindow{2, second, 10}},
		{TokenBucket{0, 1, second}}, {TokenBucket{1, 0, second}}, {TokenBucket{1, 1<<53 + 1, second}},
		{TokenBucket{1, 1, -second}}, {LeakyBucket{1, 0, second}}, {LeakyBucket{}},
		{Smooth{}}, {Smooth{Permits: 1}}, {Smooth{1, second, -second, 0}}, {Smooth{1, second, 0, -second}},
		{Smooth{Permits: 1, Interval: second}, Smooth{Permits: 2, Interval: second}},
		{Smooth{Permits: 1, Interval: maxInterval}}, {Smooth{Permits: 1, Interval: maxInterval / 4, WarmUp: time.Hour}},
		{window, Pause{}}, {window, Pause{-second}}, {window, Pause{500 * time.Microsecond}},
		{window, Pause{second}, Pause{time.Hour}},
		{window, Penalty{}}, {window, Penalty{0, second, second, false}}, {window, Penalty{1, 0, second, false}},
		{window, Penalty{1, second, time.Microsecond, false}},
		{window, Penalty{1, second, second, false}, Penalty{2, second, second, false}},
	}
}

// TestLimiter_InvalidInput_IsRefusedUnsent: each error has a type, and Redis receives no command.
func TestLimiter_InvalidInput_IsRefusedUnsent(t *testing.T) {
	f := newClocked(t)
	f.redis.SetError("a command was sent")
	ctx := t.Context()
	good := FixedWindow{1, time.Second, false}
	for _, policies := range invalidPolicies() {
		err := Validate(policies...)
		require.ErrorIs(t, err, rratelimiter.ErrInvalidRate, "%+v", policies)
		l := New(f.client, "name", policies...)
		_, _, taken := l.TakeUpTo(ctx, 1)
		for _, of := range []error{
			taken, redistest.Err(l.TryAcquire(ctx, 1)), redistest.Err(l.Charge(ctx, 1)), redistest.Err(l.Peek(ctx)),
			l.Release(ctx, 1), l.Reset(ctx), l.Pause(ctx, time.Second),
			redistest.Err(NewKeyed(f.client, "login", policies...).Take(ctx, "alice", 1)),
		} {
			assert.Equal(t, err, of, "%+v", policies)
		}
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
