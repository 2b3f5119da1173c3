package rratelimiter

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestWithWaitJitter_Waiters_AskLater: by 3 ms and a random part, unless it is 0.
func TestWithWaitJitter_Waiters_AskLater(t *testing.T) {
	for _, test := range []struct {
		opts        []Option
		interval    time.Duration
		least, most time.Duration
	}{
		{nil, time.Second, 3 * time.Millisecond, 23 * time.Millisecond},
		{nil, 50 * time.Millisecond, 3 * time.Millisecond, 13 * time.Millisecond},
		{[]Option{WithWaitJitter(time.Hour)}, time.Second, 3 * time.Millisecond, 203 * time.Millisecond},
		{[]Option{WithWaitJitter(0)}, time.Second, 0, 0},
	} {
		withRedis(t, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 1, Interval: test.interval}, test.opts...)
			first, last := time.Hour, time.Duration(0)
			for range 60 {
				f.RequireGranted(l, 1)
				began := time.Now()
				require.NoError(t, l.Acquire(t.Context(), 1))
				late := time.Since(began) - test.interval
				first, last = min(first, late), max(last, late)
				time.Sleep(test.interval)
			}
			assert.GreaterOrEqual(t, first, test.least, "%v", test.interval)
			assert.LessOrEqual(t, last, test.most, "%v", test.interval)
			assert.GreaterOrEqual(t, last-first, (test.most-test.least)/2, "random")
		})
	}
}

// TestKeepAlive_CallersAskOrWait_LimiterStays: with a denial cache, or while all wait.
func TestKeepAlive_CallersAskOrWait_LimiterStays(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 1, Interval: 500 * time.Millisecond, KeepAlive: 500 * time.Millisecond},
			WithDenialCache(time.Hour))
		for range 20 {
			f.RequireNoError(l.TryAcquire(t.Context(), 1))
			time.Sleep(300 * time.Millisecond)
		}
		_, errs := redistest.Crowd(10, func(int) (any, error) { return nil, l.Acquire(t.Context(), 1) })
		assert.NoError(t, errors.Join(errs...))
	})
}

// TestRetryAfter_GrantOfAClockAhead_IsNoLease: it returns an interval after its date.
func TestRetryAfter_GrantOfAClockAhead_IsNoLease(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Hour})
		ahead := New(f.Conn, WithClock(func() time.Time { return time.Now().Add(5 * time.Millisecond) })).Limiter("limiter")
		f.RequireGranted(ahead, 10)
		assert.Equal(t, time.Hour+5*time.Millisecond, f.decision(l, 1).RetryAfter)
		granted, d, err := l.TakeUpTo(t.Context(), 3)
		require.NoError(t, err)
		assert.Zero(t, granted)
		assert.Equal(t, time.Hour+5*time.Millisecond, d.RetryAfter)
		o := &forecast{interval: time.Hour}
		assert.Equal(t, engine.Never, o.Renew())
	})
}
