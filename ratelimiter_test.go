package rratelimiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/policymodel"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestLimiter_ContextEnds_CallReturns: even if Redis does not reply.
func TestLimiter_ContextEnds_CallReturns(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 10, Interval: time.Second})
			f.Latency.Store(int64(5 * time.Second))
			start := time.Now()
			ctx := redistest.Timeout(t, time.Second)
			assert.ErrorIs(t, everyCall(l)[name](ctx), context.DeadlineExceeded)
			assert.Equal(t, time.Second, time.Since(start))
			f.Latency.Store(0)
			time.Sleep(time.Minute)
		})
	}
}

// TestDrain_EachType_LeavesAtMostSoMany: its permits return after the interval, and it never adds any.
func TestDrain_EachType_LeavesAtMostSoMany(t *testing.T) {
	for _, kind := range []RateType{Overall, PerClient} {
		withRedis(t, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Type: kind, Permits: 10, Interval: time.Minute})
			f.RequireGranted(l, 2)
			time.Sleep(10 * time.Second)
			for _, test := range []struct{ leave, left int64 }{{20, 8}, {8, 8}, {5, 5}, {7, 5}, {5, 5}} {
				d := redistest.Result(t, l.Drain, test.leave)
				assert.Equal(t, test.left, d.Remaining, test.leave)
				assert.True(t, d.Allowed)
			}
			d, err := l.Drain(t.Context(), 0)
			require.NoError(t, err)
			assert.Equal(t, Decision{Limit: 10, RetryAfter: 50 * time.Second, ResetAfter: time.Minute}, d)
			time.Sleep(50 * time.Second)
			free := func() int64 {
				free := redistest.Available(t, l)
				return free
			}
			assert.EqualValues(t, 2, free(), "those of the first grant")
			time.Sleep(10 * time.Second)
			assert.EqualValues(t, 10, free())
			assert.ErrorIs(t, redistest.Err(l.Drain(t.Context(), -1)), ErrInvalidPermits)
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
			for _, name := range []string{"TryAcquire", "Take", "TryAcquireWithin", "TakeWithin", "Acquire"} {
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
			trips := func(flush bool) int64 {
				require.NoError(t, l.SetRate(t.Context(), Rate{Permits: 1000, Interval: time.Second}))
				f.RequireGranted(l, 2)
				if flush {
					require.NoError(t, f.Conn.Do(t.Context(), f.Conn.B().ScriptFlush().Build()).Error())
				}
				before := f.Sent.Load()
				require.NoError(t, everyCall(l)[name](t.Context()))
				return f.Sent.Load() - before
			}
			trips(false)
			flushed := int64(2)
			switch name {
			case "Config", "Exists", "RemainTimeToLive", "Touch", "SizeInMemory", "Unlink", "Delete":
				flushed = 1 // a command, no script
			}
			assert.EqualValues(t, 1, trips(false), "round trips")
			assert.Equal(t, flushed, trips(true), "round trips after SCRIPT FLUSH")
		})
	}
}

// TestAvailablePermits_SlotMoves_CountsAtTheLastAttempt: the script gets the time of the call that runs.
func TestAvailablePermits_SlotMoves_CountsAtTheLastAttempt(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Second})
		f.RequireGranted(l, 10)
		time.Sleep(950 * time.Millisecond)
		f.Redis.SetError("TRYAGAIN Multiple keys request during rehashing of slot")
		time.AfterFunc(100*time.Millisecond, func() { f.Redis.SetError("") })
		f.RequireAvailable(l, 10)
	})
}

// TestLimiter_RandomCalls_MatchTheModel: with all fields of a Decision. Prefetched permits are taken
// until an interval after their prefetch, so a Client that prefetches may deny more, and promises no more.
func TestLimiter_RandomCalls_MatchTheModel(t *testing.T) {
	t.Parallel()
	for _, rate := range []Rate{
		{Permits: 10, Interval: time.Second},
		{Permits: 100, Interval: 20 * time.Second},
		{Permits: 1000, Interval: time.Hour, Type: PerClient},
	} {
		for name, opts := range map[string][]Option{
			"plain":              nil,
			"denials remembered": {WithDenialCache(1 << 62)},
			"prefetched":         {WithPrefetch(time.Second)},
			"both":               {WithPrefetch(time.Second), WithDenialCache(1 << 62)},
		} {
			prefetches := name == "prefetched" || name == "both"
			runWithRedis(t, fmt.Sprintf("%d in %v, %s", rate.Permits, rate.Interval, name), func(t *testing.T, f *fixture) {
				for seed := range uint64(redistest.Deep(1, 4)) {
					f.Redis.FlushAll()
					f.randomCalls(f.limiter(rate, opts...), rate, rand.New(rand.NewPCG(1, seed)), prefetches)
				}
				time.Sleep(time.Minute)
			})
		}
	}
}

// randomCalls makes random calls of a limiter and compares their answers with the model's.
func (f *fixture) randomCalls(l *Limiter, rate Rate, random *rand.Rand, prefetches bool) {
	ctx, m := f.Context(), &policymodel.SlidingLog{Permits: rate.Permits, Interval: rate.Interval.Microseconds()}
	for step := range redistest.Deep(80, 250) {
		switch now := time.Now().UnixMicro(); random.IntN(8) {
		case 0:
			time.Sleep(time.Duration(m.Wait(now, 1+random.Int64N(rate.Permits))) * time.Microsecond)
		case 1:
			time.Sleep(time.Duration(random.Int64N(1+rate.Interval.Milliseconds()/8)) * time.Millisecond)
		case 2, 3:
			time.Sleep(time.Duration(random.Int64N(20)) * time.Millisecond)
		}
		synctest.Wait() // prefetches that have ended are returned
		now := time.Now().UnixMicro()
		n := 1 + random.Int64N(1+random.Int64N(rate.Permits))
		if random.IntN(4) > 0 {
			n = 1 + n/20
		}
		took, asked, free := int64(0), n, max(0, m.Free(now))
		var got Decision
		var err error
		switch random.IntN(12) {
		case 0:
			require.NoError(f, l.Release(ctx, n))
			m.Release(now, n)
			continue
		case 1:
			asked = 1
			took, got, err = l.TakeUpTo(ctx, n)
			require.True(f, prefetches || took == min(n, free), "step %d: up to %d: %+v", step, n, got)
		default:
			if got, err = l.Take(ctx, n); got.Allowed {
				took = n
			}
		}
		require.NoError(f, err)
		about := fmt.Sprintf("step %d: %d of %d: %+v", step, took, n, got)
		retry := m.Wait(now, asked)
		require.True(f, took == 0 || policymodel.Take(m, now, took), about)
		want := Decision{
			Allowed: retry == 0, Limit: rate.Permits, Remaining: max(0, m.Free(now)),
			RetryAfter: time.Duration(retry) * time.Microsecond, ResetAfter: time.Duration(m.Reset(now)) * time.Microsecond,
		}
		if !got.Allowed || prefetches {
			require.LessOrEqual(f, got.Remaining, want.Remaining, about)
			want.Remaining = got.Remaining // permits that have returned since do not count
		}
		if prefetches {
			require.GreaterOrEqual(f, got.ResetAfter, want.ResetAfter, about)
			want.Allowed, want.RetryAfter, want.ResetAfter = got.Allowed, got.RetryAfter, got.ResetAfter
		}
		require.Equal(f, want, got, about)
	}
}

// fixture is a Redis in memory inside a synctest.Test, with the helpers of this package's tests.
type fixture struct{ *redistest.Fixture }

// withRedis runs a test with a Redis in memory and a clock of its own. It fails if a goroutine
// remains.
func withRedis(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		// The scripts that take permits are loaded, so that each call is one round trip.
		none := New(f.Conn).Limiter("none")
		require.ErrorIs(t, redistest.Err(none.TryAcquire(t.Context(), 1)), ErrNotInitialized)
		require.ErrorIs(t, redistest.Err(none.Take(t.Context(), 1)), ErrNotInitialized)
		require.ErrorIs(t, none.Acquire(t.Context(), 1), ErrNotInitialized)
		test(t, &fixture{f})
	})
}

// runWithRedis runs a subtest with a Redis in memory.
func runWithRedis(t *testing.T, name string, test func(t *testing.T, f *fixture)) {
	t.Run(name, func(t *testing.T) { withRedis(t, test) })
}

// limiter opens a limiter and sets its rate.
func (f *fixture) limiter(rate Rate, opts ...Option) *Limiter {
	l := New(f.Conn, opts...).Limiter("limiter")
	require.NoError(f, l.SetRate(f.Context(), rate))
	return l
}

// refuse has Redis refuse a command, also within a script, as one that the user may not run. "" refuses none.
func (f *fixture) refuse(command string) (times *int) {
	return f.Reply(command, "", func(peer *server.Peer, _ []string) {
		peer.WriteError("NOPERM this user has no permissions")
	})
}

// configured returns the rate of a limiter.
func (f *fixture) configured(l *Limiter) Rate {
	f.Helper()
	rate, err := l.Config(f.Context())
	require.NoError(f, err)
	return rate
}

// everyCall lists every call of a limiter with valid arguments.
func everyCall(l *Limiter) map[string]func(context.Context) error {
	return everyCallWith(l, 1, Rate{Permits: 10, Interval: time.Second})
}

// everyCallWith lists every call of a limiter.
func everyCallWith(l *Limiter, permits int64, rate Rate) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"TrySetRate":   func(ctx context.Context) error { return redistest.Err(l.TrySetRate(ctx, rate)) },
		"SetRate":      func(ctx context.Context) error { return l.SetRate(ctx, rate) },
		"SetRate keep": func(ctx context.Context) error { return l.SetRate(ctx, rate, KeepState()) },
		"UpdateRate":   func(ctx context.Context) error { return redistest.Err(l.UpdateRate(ctx, rate)) },
		"Config":       func(ctx context.Context) error { return redistest.Err(l.Config(ctx)) },
		"TryAcquire":   func(ctx context.Context) error { return redistest.Err(l.TryAcquire(ctx, permits)) },
		"TryAcquireWithin": func(ctx context.Context) error {
			return redistest.Err(l.TryAcquireWithin(ctx, permits, time.Second))
		},
		"TakeWithin": func(ctx context.Context) error { return redistest.Err(l.TakeWithin(ctx, permits, time.Second)) },
		"Acquire":    func(ctx context.Context) error { return l.Acquire(ctx, permits) },
		"Take":       func(ctx context.Context) error { return redistest.Err(l.Take(ctx, permits)) },
		"TakeUpTo": func(ctx context.Context) error {
			_, _, err := l.TakeUpTo(ctx, permits)
			return err
		},
		"Release":          func(ctx context.Context) error { return l.Release(ctx, permits) },
		"Drain":            func(ctx context.Context) error { return redistest.Err(l.Drain(ctx, 1)) },
		"AvailablePermits": func(ctx context.Context) error { return redistest.Err(l.AvailablePermits(ctx)) },
		"Exists":           func(ctx context.Context) error { return redistest.Err(l.Exists(ctx)) },
		"Expire":           func(ctx context.Context) error { return redistest.Err(l.Expire(ctx, time.Hour)) },
		"ExpireAt": func(ctx context.Context) error {
			return redistest.Err(l.ExpireAt(ctx, time.Now().Add(time.Hour)))
		},
		"ClearExpire":      func(ctx context.Context) error { return redistest.Err(l.ClearExpire(ctx)) },
		"RemainTimeToLive": func(ctx context.Context) error { return redistest.Err(l.RemainTimeToLive(ctx)) },
		"ExpireTime":       func(ctx context.Context) error { return redistest.Err(l.ExpireTime(ctx)) },
		"Touch":            func(ctx context.Context) error { return redistest.Err(l.Touch(ctx)) },
		"SizeInMemory":     func(ctx context.Context) error { return redistest.Err(l.SizeInMemory(ctx)) },
		"Copy":             func(ctx context.Context) error { return redistest.Err(l.Copy(ctx, "copy", Replace())) },
		"RenameNX":         func(ctx context.Context) error { return redistest.Err(l.RenameNX(ctx, l.Name())) },
		"Rename":           func(ctx context.Context) error { return l.Rename(ctx, l.Name()) },
		"Unlink":           func(ctx context.Context) error { return redistest.Err(l.Unlink(ctx)) },
		"Delete":           func(ctx context.Context) error { return redistest.Err(l.Delete(ctx)) },
	}
}

// TestAvailablePermits_ClockPanics_CallerGetsThePanic: also with a context that can end.
func TestAvailablePermits_ClockPanics_CallerGetsThePanic(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		client := New(f.Conn, WithClock(func() time.Time { panic("a clock") }))
		ctx := redistest.Timeout(t, time.Second)
		assert.PanicsWithValue(t, "a clock", func() { _, _ = client.Limiter("name").AvailablePermits(ctx) })
	})
}

// TestTakeWithin_EachEnd_HasTheNumbers: ten permits return a minute after their grant.
func TestTakeWithin_EachEnd_HasTheNumbers(t *testing.T) {
	for name, test := range map[string]struct {
		permits int64
		timeout time.Duration
		want    Decision
		after   time.Duration
	}{
		"granted after a wait": {3, time.Hour, Decision{true, 10, 7, 0, time.Minute}, 50 * time.Second},
		"denied at once":       {3, time.Second, Decision{false, 10, 2, 50 * time.Second, 50 * time.Second}, 0},
		"granted at once":      {2, time.Second, Decision{true, 10, 0, 0, time.Minute}, 0},
		"one try":              {3, 0, Decision{false, 10, 2, 50 * time.Second, 50 * time.Second}, 0},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 10, Interval: time.Minute})
			f.RequireGranted(l, 8)
			time.Sleep(10 * time.Second)
			begin := time.Now()
			d, err := l.TakeWithin(t.Context(), test.permits, test.timeout)
			require.NoError(t, err)
			assert.Equal(t, test.want, d)
			assert.Equal(t, test.after, time.Since(begin))
		})
	}
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Minute})
		f.RequireGranted(l, 8)
		ctx := redistest.Timeout(t, time.Second)
		d, err := l.TakeWithin(ctx, 3, time.Hour)
		require.ErrorIs(t, err, context.DeadlineExceeded, "the deadline of the context comes first")
		assert.Zero(t, d)
	})
}
