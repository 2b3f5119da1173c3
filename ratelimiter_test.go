package rratelimiter

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTryAcquire_Window_Slides: each grant returns an interval after it was made.
func TestTryAcquire_Window_Slides(t *testing.T) {
	for _, typ := range []RateType{Overall, PerClient} {
		runWithRedis(t, typ.String(), func(b *fixture) {
			l := b.limiter(Rate{Type: typ, Permits: 10, Interval: 10 * second})
			start := time.Now()
			for _, step := range []struct {
				at      time.Duration
				take    int64
				granted bool
				free    int64
			}{
				{0, 4, true, 6},
				{3 * second, 5, true, 1},
				{4 * second, 2, false, 1},
				{10*second - time.Millisecond, 2, false, 1},
				{10 * second, 2, true, 3}, // the 4 of the start have returned
				{13*second - time.Millisecond, 4, false, 3},
				{13 * second, 8, true, 0}, // the 5 too
				{20*second - time.Millisecond, 1, false, 0},
				{20 * second, 2, true, 0},
				{40 * second, 10, true, 0},
			} {
				pass(time.Until(start.Add(step.at)))
				ok, err := l.TryAcquire(b.Context(), step.take)
				require.NoError(b, err)
				assert.Equal(b, step.granted, ok, "%d permits after %v", step.take, step.at)
				b.Free(l, step.free)
			}
		})
	}
}

// TestTakeUpTo_Window_GrantsWhatIsFree: value and set change as after tryAcquire(granted). The
// Observer gets the granted permits; for a denial, the requested ones.
func TestTakeUpTo_Window_GrantsWhatIsFree(t *testing.T) {
	for _, typ := range []RateType{Overall, PerClient} {
		runWithRedis(t, typ.String(), func(b *fixture) {
			var reported DecisionInfo
			l := b.limiter(Rate{Type: typ, Permits: 10, Interval: 10 * second}, WithObserver(&Observer{
				Decision: func(_ context.Context, d DecisionInfo) { reported = d },
			}))
			start := time.Now()
			for _, step := range []struct {
				at      time.Duration
				permits int64
				granted int64
				want    Decision
			}{
				{0, 4, 4, Decision{Remaining: 6, ResetAfter: 10 * second}},
				{second, 7, 6, Decision{ResetAfter: 10 * second}},
				{2 * second, 1, 0, Decision{RetryAfter: 8 * second, ResetAfter: 9 * second}},
				{3 * second, 50, 0, Decision{RetryAfter: 7 * second, ResetAfter: 8 * second}},
				{10 * second, engine.MaxPermits, 4, Decision{ResetAfter: 10 * second}},
				{30 * second, engine.MaxPermits, 10, Decision{ResetAfter: 10 * second}}, // above the rate
			} {
				pass(time.Until(start.Add(step.at)))
				granted, got, err := l.TakeUpTo(b.Context(), step.permits)
				require.NoError(b, err)
				assert.Equal(b, step.granted, granted, "at %v", step.at)
				step.want.Allowed, step.want.Limit = granted > 0, 10
				assert.Equal(b, step.want, got, "at %v", step.at)
				assert.Equal(b, step.want.Allowed, reported.Granted)
				assert.Equal(b, cmp.Or(granted, step.permits), reported.Permits)
				b.Free(l, step.want.Remaining)
				if typ == Overall {
					assert.Zero(b, b.drift())
					assert.LessOrEqual(b, len(b.members()), 2, "a call makes one grant")
				}
			}
		})
	}
}

// TestLimiter_ContextEnds_CallReturns: even if Redis does not reply.
func TestLimiter_ContextEnds_CallReturns(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		runWithRedis(t, name, func(b *fixture) {
			l := b.limiter(Rate{Permits: 10, Interval: second})
			b.Latency.Store(int64(5 * second))
			start := time.Now()
			ctx, cancel := context.WithTimeout(b.Context(), second)
			defer cancel()
			assert.ErrorIs(b, everyCall(l)[name](ctx), context.DeadlineExceeded)
			assert.Equal(b, second, time.Since(start))

			ctx, cancel = context.WithCancel(b.Context())
			defer time.AfterFunc(second/2, cancel).Stop()
			assert.ErrorIs(b, everyCall(l)[name](ctx), context.Canceled)
			assert.Equal(b, second*3/2, time.Since(start))
			b.Latency.Store(0)
			pass(time.Minute)
		})
	}
}

// TestTake_GrantOfNoPermits_IsNoReturn: Redisson makes a grant of no permits for a call with 0. A
// denied caller does not wait for it.
func TestTake_GrantOfNoPermits_IsNoReturn(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second})
		nothing := string(rune(16)) + strings.Repeat("r", 16) + strings.Repeat("\x00", 4)
		b.must(b.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()), nothing))
		require.NoError(b, b.Redis.Set("{limiter}:value", strconv.Itoa(10)))
		pass(3 * second)
		b.Take(l, 10)
		assert.Equal(b, Decision{Limit: 10, RetryAfter: 10 * second, ResetAfter: 10 * second}, b.decision(l, 1))
	})
}

// TestLimiter_RequestAboveTheRate_ChangesNothing: as in Redisson, such a request removes no expired
// grant and keeps no limiter alive.
func TestLimiter_RequestAboveTheRate_ChangesNothing(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Minute, KeepAlive: time.Hour})
		unchanged := func() {
			b.Helper()
			pass(2 * time.Minute) // a grant has expired, and stays until the next one
			before, ttl := b.Redis.Dump(), b.Redis.TTL("limiter")
			for _, name := range []string{"TryAcquire", "Take", "TryAcquireWithin", "Acquire"} {
				require.ErrorIs(b, everyCallWith(l, 11, Rate{})[name](b.Context()), ErrPermitsExceedRate)
				require.Equal(b, before, b.Redis.Dump())
				require.Equal(b, ttl, b.Redis.TTL("limiter"))
			}
		}
		unchanged() // a fresh limiter has no value, and gets none
		b.Take(l, 7)
		unchanged()
	})
}

// TestLimiter_EveryCall_IsOneRoundTrip: once its script is loaded. After SCRIPT FLUSH or a restart
// it is one more, without an error.
func TestLimiter_EveryCall_IsOneRoundTrip(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		runWithRedis(t, name, func(b *fixture) {
			l := b.limiter(Rate{Permits: 1000, Interval: second})
			call := func(prepare func() error) int64 {
				require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 1000, Interval: second}))
				b.Take(l, 2)
				require.NoError(b, prepare())
				before := b.Sent.Load()
				require.NoError(b, everyCall(l)[name](b.Context()))
				return b.Sent.Load() - before
			}
			loaded := func() error { return nil }
			flush := func() error { return b.Conn.Do(b.Context(), b.Conn.B().ScriptFlush().Build()).Error() }
			call(loaded)
			flushed := int64(2)
			switch name {
			case "Config", "Exists", "RemainTimeToLive", "Touch", "SizeInMemory", "Unlink", "Delete":
				flushed = 1 // a command, no script
			}
			assert.EqualValues(b, 1, call(loaded), "round trips")
			assert.Equal(b, flushed, call(flush), "round trips after SCRIPT FLUSH")
		})
	}
}

// TestLimiter_Outage_CallsEndWithTheirCallers: every call returns an error, and no retry runs once
// its callers have left.
func TestLimiter_Outage_CallsEndWithTheirCallers(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		runWithRedis(t, name, func(b *fixture) {
			var down atomic.Bool
			var dials atomic.Int64
			conn, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{"in-memory"}, ForceSingleClient: true, DisableCache: true,
				DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
					dials.Add(1)
					if down.Load() {
						return nil, errors.New("connection refused")
					}
					return b.Redis.Dial()
				},
			})
			require.NoError(b, err)
			defer conn.Close()
			l := New(conn, WithDenialCache(time.Hour)).Limiter("limiter")
			require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}))
			b.Take(l, 10)
			b.Full(l, 1)
			pass(second)
			require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}))
			down.Store(true)
			b.Redis.Server().Close() // the existing connections end

			var callers sync.WaitGroup
			call := everyCall(l)[name]
			for range 20 {
				callers.Go(func() {
					ctx, cancel := context.WithTimeout(b.Context(), 20*time.Millisecond)
					defer cancel()
					assert.Error(b, call(ctx))
				})
				callers.Go(func() { assert.Error(b, call(context.Background())) })
			}
			start := time.Now()
			callers.Wait()
			assert.LessOrEqual(b, time.Since(start), second, "an error, whether the context can end or not")
			pass(second)
			before := dials.Load()
			pass(time.Minute)
			assert.Equal(b, before, dials.Load(), "attempts without a caller")
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
