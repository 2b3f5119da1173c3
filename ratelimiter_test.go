package rratelimiter

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLimiter_ContextEnds_CallReturns: even if Redis does not reply.
func TestLimiter_ContextEnds_CallReturns(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 10, Interval: time.Second})
			f.Latency.Store(int64(5 * time.Second))
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			assert.ErrorIs(t, everyCall(l)[name](ctx), context.DeadlineExceeded)
			assert.Equal(t, time.Second, time.Since(start))

			ctx, cancel = context.WithCancel(t.Context())
			defer time.AfterFunc(time.Second/2, cancel).Stop()
			assert.ErrorIs(t, everyCall(l)[name](ctx), context.Canceled)
			assert.Equal(t, time.Second*3/2, time.Since(start))
			f.Latency.Store(0)
			time.Sleep(time.Minute)
		})
	}
}

// TestLimiter_RequestAboveTheRate_ChangesNothing: as in Redisson, such a request removes no expired
// grant and keeps no limiter alive.
func TestLimiter_RequestAboveTheRate_ChangesNothing(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Minute, KeepAlive: time.Hour})
		unchanged := func() {
			t.Helper()
			time.Sleep(2 * time.Minute) // a grant has expired, and stays until the next one
			before, ttl := f.Redis.Dump(), f.Redis.TTL("limiter")
			for _, name := range []string{"TryAcquire", "Take", "TryAcquireWithin", "Acquire"} {
				require.ErrorIs(t, everyCallWith(l, 11, Rate{})[name](t.Context()), ErrPermitsExceedRate)
				require.Equal(t, before, f.Redis.Dump())
				require.Equal(t, ttl, f.Redis.TTL("limiter"))
			}
		}
		unchanged() // a fresh limiter has no value, and gets none
		f.RequireGranted(l, 7)
		unchanged()
	})
}

// TestLimiter_EveryCall_IsOneRoundTrip: once its script is loaded. After SCRIPT FLUSH or a restart
// it is one more, without an error.
func TestLimiter_EveryCall_IsOneRoundTrip(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 1000, Interval: time.Second})
			call := func(prepare func() error) int64 {
				require.NoError(t, l.SetRate(t.Context(), Rate{Permits: 1000, Interval: time.Second}))
				f.RequireGranted(l, 2)
				require.NoError(t, prepare())
				before := f.Sent.Load()
				require.NoError(t, everyCall(l)[name](t.Context()))
				return f.Sent.Load() - before
			}
			loaded := func() error { return nil }
			flush := func() error { return f.Conn.Do(t.Context(), f.Conn.B().ScriptFlush().Build()).Error() }
			call(loaded)
			flushed := int64(2)
			switch name {
			case "Config", "Exists", "RemainTimeToLive", "Touch", "SizeInMemory", "Unlink", "Delete":
				flushed = 1 // a command, no script
			}
			assert.EqualValues(t, 1, call(loaded), "round trips")
			assert.Equal(t, flushed, call(flush), "round trips after SCRIPT FLUSH")
		})
	}
}

func TestForecast_Leases_MayReturnEarlier(t *testing.T) {
	f := forecast{rate: 10, interval: time.Second}
	f.add(300, 1)
	f.add(400, -2)
	f.add(700, 1)
	for wanted, want := range []time.Duration{0, 300, 350, 350, 650} {
		assert.Equal(t, want*time.Millisecond, f.Earliest(0, int64(wanted)), "%d permits", wanted)
	}
}
