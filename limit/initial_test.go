package limit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// joinedCalls are the calls of a joined limiter that need a rate.
func joinedCalls(l *Limiter) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"TryAcquire":       func(ctx context.Context) error { return redistest.Err(l.TryAcquire(ctx, 1)) },
		"TryAcquireWithin": func(ctx context.Context) error { return redistest.Err(l.TryAcquireWithin(ctx, 1, time.Second)) },
		"Acquire":          func(ctx context.Context) error { return l.Acquire(ctx, 1) },
		"Take":             func(ctx context.Context) error { return redistest.Err(l.Take(ctx, 1)) },
		"TakeEach":         func(ctx context.Context) error { return redistest.Err(l.TakeEach(ctx, 1)) },
		"Peek":             func(ctx context.Context) error { return redistest.Err(l.Peek(ctx)) },
		"TakeUpTo": func(ctx context.Context) error {
			_, _, err := l.TakeUpTo(ctx, 1)
			return err
		},
	}
}

func TestJoin_InitialRates_EachCallSetsThoseThatAreMissingInOneMoreRoundTrip(t *testing.T) {
	for name := range joinedCalls(nil) {
		t.Run(name, func(t *testing.T) {
			redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
				c := rratelimiter.New(f.Conn)
				first := c.Limiter("{t}:first", rratelimiter.InitialRate(rratelimiter.Rate{Permits: 5, Interval: time.Hour}))
				second := c.Limiter("{t}:second", rratelimiter.InitialRate(rratelimiter.Rate{Permits: 7, Interval: time.Hour}))
				join := Join(New(c, "{t}:window", FixedWindow{10, time.Hour, false}), first, second)
				call := joinedCalls(join)[name]
				require.NoError(t, call(t.Context())) // the scripts are known from now on
				synctest.Wait()                       // and drift is counted

				for _, lost := range []string{"{t}:first", "{t}:second"} {
					f.Redis.Del(lost)
				}
				require.NoError(t, second.SetRate(t.Context(), rratelimiter.Rate{Permits: 6, Interval: time.Hour}))
				sent := f.Sent.Load()
				require.NoError(t, call(t.Context()))
				assert.EqualValues(t, 2, f.Sent.Load()-sent, "the call and the one that sets the rates")
				assert.Equal(t, "5", f.Redis.HGet("{t}:first", "rate"))
				assert.Equal(t, "6", f.Redis.HGet("{t}:second", "rate"), "a rate in Redis counts")
			})
		})
	}
}

func TestJoin_InitialRateIsInvalid_FailsAtTheFirstCall(t *testing.T) {
	f := newClocked(t)
	l := f.client.Limiter("name", rratelimiter.InitialRate(rratelimiter.Rate{Permits: 1}))
	_, err := Join(l, New(f.client, "window", FixedWindow{10, time.Hour, false})).Take(t.Context(), 1)
	assert.ErrorIs(t, err, rratelimiter.ErrInvalidRate)
	assert.Empty(t, f.redis.Keys())
}
