package limit

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestReserve_InvalidInput_TakesNothing: each error has a type.
func TestReserve_InvalidInput_TakesNothing(t *testing.T) {
	f := newClocked(t)
	ctx := t.Context()
	bucket := TokenBucket{5, 1, time.Second}
	for _, l := range []*Limiter{New(f.client, "name", FixedWindow{1, time.Second, false}),
		New(f.client, "name", bucket, FixedWindow{5, time.Second, false})} {
		_, err := l.Reserve(ctx, 1)
		assert.ErrorIs(t, err, ErrNotReservable)
	}
	_, err := New(f.client, "name", TokenBucket{}).Reserve(ctx, 1)
	assert.ErrorIs(t, err, rratelimiter.ErrInvalidRate)
	_, err = new(Limiter).Reserve(ctx, 1)
	assert.ErrorIs(t, err, rratelimiter.ErrNoClient)
	for _, p := range []Policy{bucket, LeakyBucket{5, 1, time.Second}} {
		_, err = New(f.client, "name", p).Reserve(ctx, 6)
		assert.ErrorIs(t, err, rratelimiter.ErrPermitsExceedRate)
		_, err = New(f.client, "name", p).Reserve(ctx, 0)
		assert.ErrorIs(t, err, rratelimiter.ErrInvalidPermits)
	}
	assert.Empty(t, f.redis.Keys())

	r := new(Reservation)
	assert.Zero(t, r.Delay())
	assert.NoError(t, r.Cancel(ctx))

	l := New(f.client, "name", bucket)
	for range 2 {
		r = redistest.Result(t, l.Reserve, 5)
	}
	require.NoError(t, f.redis.Set("{name}:bucket:1000", "a 1 2 3 "))
	var state *rratelimiter.StateError
	_, err = l.Reserve(ctx, 1)
	require.ErrorAs(t, err, &state)
	assert.Equal(t, rratelimiter.StateError{Key: "{name}:bucket:1000", Value: "a 1 2 3 "}, *state)
	require.ErrorAs(t, r.Cancel(ctx), &state)
	assert.NoError(t, r.Cancel(ctx), "a second time")
}

// TestReserve_DelayIsTooLong_IsRefused: the state stays valid.
func TestReserve_DelayIsTooLong_IsRefused(t *testing.T) {
	for _, p := range []Policy{TokenBucket{1<<32 - 1, 1, time.Hour}, LeakyBucket{1<<32 - 1, 1, time.Hour}} {
		f := newClocked(t)
		l := New(f.client, "name", p)
		redistest.Result(t, l.Reserve, 1<<32-1)
		_, err := l.Reserve(t.Context(), 1<<32-1)
		require.ErrorIs(t, err, context.DeadlineExceeded, "%+v", p)
		peekAll(t, l)
	}
}

// TestReserve_DeadlineIsEarlier_ReservesNothing: the call fails at once.
func TestReserve_DeadlineIsEarlier_ReservesNothing(t *testing.T) {
	for _, p := range []Policy{TokenBucket{5, 1, time.Minute}, LeakyBucket{5, 1, time.Minute},
		Smooth{Permits: 1, Interval: time.Minute}} {
		f := newClocked(t)
		l := New(f.client, "name", p)
		redistest.Result(t, l.Reserve, 5)
		before := peekAll(t, l)
		soon, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		_, err := l.Reserve(soon, 1)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "at the earliest")
		assert.ErrorIs(t, l.Acquire(soon, 1), context.DeadlineExceeded)
		assert.False(t, tryWithin(t, l, 1, 30*time.Second))
		_, err = l.TryAcquireWithin(soon, 1, time.Hour)
		assert.ErrorIs(t, err, context.DeadlineExceeded, "the context is why")
		assert.NoError(t, soon.Err(), "at once")
		assert.Equal(t, before, peekAll(t, l))
	}
}

// TestCancel_LaterReservations_KeepTheirPermits: the last reservation returns whole. Others return
// the permits that they have more than those behind them.
func TestCancel_LaterReservations_KeepTheirPermits(t *testing.T) {
	for _, p := range []Policy{TokenBucket{5, 1, time.Minute}, LeakyBucket{5, 1, time.Minute},
		Smooth{Permits: 1, Interval: time.Minute, Burst: 5 * time.Minute}} {
		f := newClocked(t)
		l := New(f.client, "name", p)
		reserve := func(permits int64) *Reservation { return redistest.Result(t, l.Reserve, permits) }
		reserve(5)
		reserve(1)
		large, small := reserve(5), reserve(2)
		next := func() time.Duration {
			t.Helper()
			r := reserve(1)
			require.NoError(t, r.revoke(t.Context()))
			return r.delay
		}
		full := next()
		require.NoError(t, large.Cancel(t.Context()))
		assert.Equal(t, full-3*time.Minute, next(), "%T: 5 less the 2 behind it", p)
		require.NoError(t, large.Cancel(t.Context()))
		assert.Equal(t, full-3*time.Minute, next(), "%T: only once", p)
		require.NoError(t, small.Cancel(t.Context()))
		assert.Equal(t, full-5*time.Minute, next(), "%T: all of the last", p)
	}
}

// TestReserve_AllCallersLeave_AllIsReturned: the last reservation is cancelled first.
func TestReserve_AllCallersLeave_AllIsReturned(t *testing.T) {
	for _, p := range []Policy{TokenBucket{5, 1, time.Minute}, LeakyBucket{5, 1, time.Minute},
		Smooth{3, time.Minute, 0, time.Hour, 0}} {
		f := newClocked(t)
		l := New(f.client, "name", p)
		redistest.Result(t, l.Reserve, 2)
		before := peekAll(t, l)
		call := reserveProtocol{protocol{&l.wire}}
		batch := f.send(l, call, engine.Ask{Permits: 2, Within: time.Hour}, engine.Ask{Permits: 5, Within: time.Hour},
			engine.Ask{Permits: 5}, engine.Ask{Permits: 5, Within: time.Hour})
		for i, r := range batch.Requests {
			assert.Equal(t, i != 2, r.Allowed, "%T: %d", p, i)
			if r.Allowed {
				batch.Lost = append(batch.Lost, r)
			}
		}
		assert.Positive(t, batch.Requests[2].RetryAfter)
		call.Refund(batch)(t.Context())
		assert.Equal(t, before, peekAll(t, l), "%T", p)
	}
}

// TestCancel_ContextHadEnded_CanBeRepeated: such a Cancel makes no call.
func TestCancel_ContextHadEnded_CanBeRepeated(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.client, "name", TokenBucket{1, 1, time.Minute})
		redistest.Result(t, l.Reserve, 1)
		r := redistest.Result(t, l.Reserve, 1)
		inner, end := context.WithCancel(t.Context())
		require.ErrorIs(t, r.Cancel(redistest.EndsOnceAsked{Context: inner, End: end}), context.Canceled)
		require.NoError(t, r.Cancel(t.Context()))
		next := redistest.Result(t, l.Reserve, 1)
		assert.Equal(t, time.Minute, next.Delay(), "the time of the one that was cancelled")
		redistest.Result(t, l.Reserve, 1)
		before := peekAll(t, l)
		require.NoError(t, r.Cancel(t.Context()))
		assert.Equal(t, before, peekAll(t, l), "a second Cancel does nothing")
		time.Sleep(time.Minute)
		require.NoError(t, next.Cancel(t.Context()))
		assert.False(t, next.cancelled.Load(), "its time has passed")
	})
}
