package rratelimiter

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// TestWithWaitJitter_Waiters_AskLater: by 3 ms and a random part, unless it is 0.
func TestWithWaitJitter_Waiters_AskLater(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		opts        []Option
		interval    time.Duration
		least, most time.Duration
	}{
		{nil, second, 3 * ms, 23 * ms},
		{nil, 50 * ms, 3 * ms, 13 * ms},
		{nil, ms, 3 * ms, 4 * ms},
		{[]Option{WithWaitJitter(time.Hour)}, second, 3 * ms, 203 * ms},
		{[]Option{WithWaitJitter(0)}, second, 0, 0},
	} {
		withRedis(t, func(b *fixture) {
			l := b.limiter(Rate{Permits: 1, Interval: test.interval}, test.opts...)
			first, last := time.Hour, time.Duration(0)
			for range 200 {
				b.Take(l, 1)
				began := time.Now()
				require.NoError(b, l.Acquire(b.Context(), 1))
				late := time.Since(began) - test.interval
				first, last = min(first, late), max(last, late)
				pass(test.interval)
			}
			assert.GreaterOrEqual(b, first, test.least, "%v", test.interval)
			assert.LessOrEqual(b, last, test.most, "%v", test.interval)
			if test.interval > ms { // scores are whole milliseconds
				assert.GreaterOrEqual(b, last-first, (test.most-test.least)/2, "random")
			}
		})
	}
	runWithRedis(t, "below 0", func(b *fixture) {
		_, err := New(b.Conn, WithWaitJitter(-1)).Limiter("limiter").TryAcquire(b.Context(), 1)
		assert.ErrorIs(b, err, ErrInvalidOption)
	})
}

// TestKeepAlive_CallersAskOrWait_LimiterStays: with a denial cache, or while all wait.
func TestKeepAlive_CallersAskOrWait_LimiterStays(t *testing.T) {
	const ms = time.Millisecond
	runWithRedis(t, "denials from memory", func(b *fixture) {
		l := b.limiter(Rate{Permits: 1, Interval: 500 * ms, KeepAlive: 500 * ms}, WithDenialCache(time.Hour))
		for range 20 {
			_, err := l.TryAcquire(b.Context(), 1)
			assert.NoError(b, err)
			pass(300 * ms)
		}
	})
	runWithRedis(t, "waiters alone", func(b *fixture) {
		l := b.limiter(Rate{Permits: 2, Interval: 200 * ms, KeepAlive: 200 * ms})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { assert.NoError(b, l.Acquire(b.Context(), 1)) })
		}
		for range 250 {
			pass(10 * ms)
		}
		all.Wait()
	})
}

// TestRetryAfter_GrantOfAClockAhead_IsNoLease: it returns an interval after its date.
func TestRetryAfter_GrantOfAClockAhead_IsNoLease(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
		ahead := New(b.Conn, WithClock(func() time.Time { return time.Now().Add(5 * time.Millisecond) })).Limiter("limiter")
		b.Take(ahead, 10)
		d, err := l.Take(b.Context(), 1)
		require.NoError(b, err)
		assert.Equal(b, time.Hour+5*time.Millisecond, d.RetryAfter)
		granted, d, err := l.TakeUpTo(b.Context(), 3)
		require.NoError(b, err)
		assert.Zero(b, granted)
		assert.Equal(b, time.Hour+5*time.Millisecond, d.RetryAfter)
		o := &forecast{interval: time.Hour}
		assert.Equal(b, engine.Never, o.Renew())
	})
}
