package rratelimiter

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const second = time.Second

// TestTheWindowSlides is the model: every grant comes back by itself, an interval after it was made.
func TestTheWindowSlides(t *testing.T) {
	for _, typ := range []RateType{Overall, PerClient} {
		t.Run(typ.String(), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
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
					{10 * second, 2, true, 3}, // the 4 of the start are back
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
		})
	}
}

func TestDecisionTellsWhatUsersAreShown(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second})
		for _, step := range []struct {
			sleep time.Duration
			take  int64
			want  Decision
		}{
			{0, 3, Decision{Allowed: true, Limit: 10, Remaining: 7, ResetAfter: 10 * second}},
			{2 * second, 6, Decision{Allowed: true, Limit: 10, Remaining: 1, ResetAfter: 10 * second}},
			{1 * second, 2, Decision{Limit: 10, Remaining: 1, RetryAfter: 7 * second, ResetAfter: 9 * second}},
			{0, 4, Decision{Limit: 10, Remaining: 1, RetryAfter: 7 * second, ResetAfter: 9 * second}},
			{0, 5, Decision{Limit: 10, Remaining: 1, RetryAfter: 9 * second, ResetAfter: 9 * second}},
			{0, 1, Decision{Allowed: true, Limit: 10, ResetAfter: 10 * second}},
			{0, 10, Decision{Limit: 10, RetryAfter: 10 * second, ResetAfter: 10 * second}},
		} {
			pass(step.sleep)
			got, err := l.Take(b.Context(), step.take)
			require.NoError(b, err)
			assert.Equal(b, step.want, got, "take %d", step.take)
		}
	})
}

func TestPerClientLimitsCountByID(t *testing.T) {
	inBubble(t, func(b *bubble) {
		id := uuid.New()
		rate := Rate{Type: PerClient, Permits: 2, Interval: second}
		first := b.limiter(rate, WithClientID(id))
		same := New(b.Conn, WithClientID(id)).Limiter("limiter")
		other := New(b.Conn).Limiter("limiter")
		b.Take(first, 2)
		b.Full(same, 1)
		b.Take(other, 2)
		assert.Equal(b, id.String(), New(b.Conn, WithClientID(id)).ID())
		assert.NotEqual(b, New(b.Conn).ID(), New(b.Conn).ID())
	})
}

func TestKeepAliveDeletesAnUnusedLimiter(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 2, Interval: second, KeepAlive: 3 * second})
		for range 5 {
			pass(2 * second)
			b.Take(l, 1)
		}
		pass(2 * second)
		require.NoError(b, l.Release(b.Context(), 1)) // a use as well
		pass(2 * second)
		assert.Len(b, b.Redis.Keys(), 2) // the set of grants was emptied
		pass(second + time.Millisecond)
		assert.Empty(b, b.Redis.Keys())
		_, err := l.TryAcquire(b.Context(), 1)
		assert.ErrorIs(b, err, ErrNotInitialized)
	})
}

func TestNamesAreMapped(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 1, Interval: second}, WithNameMapper(func(name string) string { return "app:" + name }))
		b.Take(l, 1)
		assert.Equal(b, []string{"app:limiter", "{app:limiter}:permits", "{app:limiter}:value"}, b.Redis.Keys())
		assert.Equal(b, "limiter", l.Name())
	})
}

// TestBadInputIsRefusedUnsent: each is a typed error, and Redis hears nothing of it.
func TestBadInputIsRefusedUnsent(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx := b.Context()
		good := New(b.Conn).Limiter("limiter")
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		expired, cancel := context.WithDeadline(ctx, time.Now().Add(-second))
		defer cancel()

		type call struct {
			name string
			want error
			run  func() error
		}
		var calls []call
		permits := func(n int64, want error) {
			calls = append(calls,
				call{fmt.Sprintf("TryAcquire(%d)", n), want, func() error { _, err := good.TryAcquire(ctx, n); return err }},
				call{fmt.Sprintf("Take(%d)", n), want, func() error { _, err := good.Take(ctx, n); return err }},
				call{fmt.Sprintf("Acquire(%d)", n), want, func() error { return good.Acquire(ctx, n) }},
				call{fmt.Sprintf("TryAcquireWithin(%d)", n), want, func() error { _, err := good.TryAcquireWithin(ctx, n, second); return err }},
				call{fmt.Sprintf("TryAcquireWithin(%d, 0)", n), want, func() error { _, err := good.TryAcquireWithin(ctx, n, 0); return err }},
			)
		}
		permits(0, ErrInvalidPermits)
		permits(-1, ErrInvalidPermits)
		permits(math.MinInt64, ErrInvalidPermits)
		permits(1<<32, ErrInvalidPermits)
		calls = append(calls,
			call{"Release(-1)", ErrInvalidPermits, func() error { return good.Release(ctx, -1) }},
			call{"Release(2^53+1)", ErrInvalidPermits, func() error { return good.Release(ctx, 1<<53+1) }},
			call{"Expire(9)", ErrInvalidOption, func() error { _, err := good.Expire(ctx, second, 9); return err }},
			call{"Expire(IfNotSet, IfGreater)", ErrInvalidOption, func() error { _, err := good.Expire(ctx, second, IfNotSet, IfGreater); return err }},
			call{"ExpireAt(IfLess, IfGreater)", ErrInvalidOption, func() error { _, err := good.ExpireAt(ctx, time.Now(), IfLess, IfGreater); return err }},
			call{"Rename to nothing", ErrInvalidName, func() error { return good.Rename(ctx, "") }},
			call{"Copy to nothing", ErrInvalidName, func() error { _, err := good.Copy(ctx, ""); return err }},
		)
		for _, rate := range []Rate{
			{}, {Permits: 0, Interval: second}, {Permits: -1, Interval: second}, {Permits: 1<<53 + 1, Interval: second},
			{Permits: 1}, {Permits: 1, Interval: -second}, {Permits: 1, Interval: second + time.Microsecond}, {Permits: 1, Interval: time.Nanosecond},
			{Permits: 1, Interval: second, KeepAlive: -1}, {Permits: 1, Interval: second, KeepAlive: second - time.Millisecond},
			{Permits: 1, Interval: second, KeepAlive: second + 1}, {Type: 2, Permits: 1, Interval: second}, {Type: -1, Permits: 1, Interval: second},
		} {
			calls = append(calls,
				call{fmt.Sprintf("TrySetRate(%+v)", rate), ErrInvalidRate, func() error { _, err := good.TrySetRate(ctx, rate); return err }},
				call{fmt.Sprintf("SetRate(%+v)", rate), ErrInvalidRate, func() error { return good.SetRate(ctx, rate) }},
				call{fmt.Sprintf("UpdateRate(%+v)", rate), ErrInvalidRate, func() error { _, err := good.UpdateRate(ctx, rate, KeepState()); return err }},
			)
		}
		bad := func(l *Limiter, ctx context.Context, want error) {
			for name, run := range everyCall(l) {
				calls = append(calls, call{name, want, func() error { return run(ctx) }})
			}
		}
		bad(New(b.Conn).Limiter(""), ctx, ErrInvalidName)
		bad(New(b.Conn, WithNameMapper(func(string) string { return "" })).Limiter("limiter"), ctx, ErrInvalidName)
		bad(New(nil).Limiter("limiter"), ctx, ErrNoClient)
		bad(new(Client).Limiter("limiter"), ctx, ErrNoClient)
		bad(new(Limiter), ctx, ErrNoClient)
		bad(good, cancelled, context.Canceled)
		bad(good, expired, context.DeadlineExceeded)

		before := b.Redis.CommandCount()
		for _, c := range calls {
			err := c.run()
			assert.ErrorIs(b, err, c.want, c.name)
			if err != nil {
				assert.Greater(b, len(err.Error()), 10, c.name)
			}
		}
		assert.Equal(b, before, b.Redis.CommandCount(), "commands that Redis got")
	})
}

// everyCall lists every call of a limiter with arguments that are all right.
func everyCall(l *Limiter) map[string]func(context.Context) error {
	rate := Rate{Permits: 10, Interval: second}
	errOf := func(_ any, err error) error { return err }
	return map[string]func(context.Context) error{
		"TrySetRate":       func(ctx context.Context) error { return errOf(l.TrySetRate(ctx, rate)) },
		"SetRate":          func(ctx context.Context) error { return l.SetRate(ctx, rate) },
		"SetRate keep":     func(ctx context.Context) error { return l.SetRate(ctx, rate, KeepState()) },
		"UpdateRate":       func(ctx context.Context) error { return errOf(l.UpdateRate(ctx, rate)) },
		"Config":           func(ctx context.Context) error { return errOf(l.Config(ctx)) },
		"TryAcquire":       func(ctx context.Context) error { return errOf(l.TryAcquire(ctx, 1)) },
		"TryAcquireWithin": func(ctx context.Context) error { return errOf(l.TryAcquireWithin(ctx, 1, second)) },
		"Acquire":          func(ctx context.Context) error { return l.Acquire(ctx, 1) },
		"Take":             func(ctx context.Context) error { return errOf(l.Take(ctx, 1)) },
		"Release":          func(ctx context.Context) error { return l.Release(ctx, 1) },
		"Release(0)":       func(ctx context.Context) error { return l.Release(ctx, 0) },
		"AvailablePermits": func(ctx context.Context) error { return errOf(l.AvailablePermits(ctx)) },
		"Exists":           func(ctx context.Context) error { return errOf(l.Exists(ctx)) },
		"Expire":           func(ctx context.Context) error { return errOf(l.Expire(ctx, time.Hour)) },
		"ExpireAt":         func(ctx context.Context) error { return errOf(l.ExpireAt(ctx, time.Now().Add(time.Hour))) },
		"ClearExpire":      func(ctx context.Context) error { return errOf(l.ClearExpire(ctx)) },
		"RemainTimeToLive": func(ctx context.Context) error { return errOf(l.RemainTimeToLive(ctx)) },
		"ExpireTime":       func(ctx context.Context) error { return errOf(l.ExpireTime(ctx)) },
		"Touch":            func(ctx context.Context) error { return errOf(l.Touch(ctx)) },
		"SizeInMemory":     func(ctx context.Context) error { return errOf(l.SizeInMemory(ctx)) },
		"Copy":             func(ctx context.Context) error { return errOf(l.Copy(ctx, "copy", Replace())) },
		"RenameNX":         func(ctx context.Context) error { return errOf(l.RenameNX(ctx, l.Name())) },
		"Rename":           func(ctx context.Context) error { return l.Rename(ctx, l.Name()) },
		"Unlink":           func(ctx context.Context) error { return errOf(l.Unlink(ctx)) },
		"Delete":           func(ctx context.Context) error { return errOf(l.Delete(ctx)) },
	}
}

// TestAContextEndsACallUnderWay, however long Redis takes.
func TestAContextEndsACallUnderWay(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		if name == "Release(0)" {
			continue // asks nothing
		}
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
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
		})
	}
}

func TestAnUninitialisedLimiter(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx, l := b.Context(), New(b.Conn).Limiter("limiter")
		for _, name := range []string{"TryAcquire", "Acquire", "TryAcquireWithin", "Take", "Release", "AvailablePermits", "Config", "Rename", "Copy"} {
			assert.ErrorIs(b, everyCall(l)[name](ctx), ErrNotInitialized, name)
		}
		for _, field := range []string{"rate", "interval", "type"} {
			b.Redis.FlushAll()
			for other, value := range map[string]string{"rate": "1", "interval": "1000", "type": "0"} {
				if other != field {
					b.Redis.HSet("limiter", other, value)
				}
			}
			assert.ErrorIs(b, everyCall(l)["TryAcquire"](ctx), ErrNotInitialized, "no "+field)
			assert.ErrorIs(b, everyCall(l)["Config"](ctx), ErrNotInitialized, "no "+field)
		}
		b.Redis.FlushAll()
		ok, err := l.UpdateRate(ctx, Rate{Permits: 1, Interval: second})
		require.NoError(b, err)
		assert.False(b, ok)
		assert.Empty(b, b.Redis.Keys())
	})
}

// TestStateThatIsNoLimiters is told by key and field, and nothing is granted or changed.
func TestStateThatIsNoLimiters(t *testing.T) {
	type harmed struct {
		harm func(b *bubble)
		want StateError
	}
	corrupt := map[string]harmed{}
	for _, field := range []string{"rate", "interval", "type", "keepAliveTime"} {
		for _, value := range []string{"", "ten", "-1", "1.5", "1e3", "0x10", " 7", "7\x00"} {
			corrupt[field+" "+strconv.Quote(value)] = harmed{
				func(b *bubble) { b.Redis.HSet("limiter", field, value) }, StateError{"limiter", field, value}}
		}
	}
	corrupt["type 2"] = harmed{func(b *bubble) { b.Redis.HSet("limiter", "type", "2") }, StateError{"limiter", "type", "2"}}
	corrupt["rate above 2^53"] = harmed{func(b *bubble) { b.Redis.HSet("limiter", "rate", "9007199254740993") }, StateError{"limiter", "rate", "9007199254740993"}}
	corrupt["configuration is a list"] = harmed{func(b *bubble) { b.Redis.Del("limiter"); b.Redis.Lpush("limiter", "x") }, StateError{"limiter", "", "list"}}
	state := map[string]harmed{
		"value text":          {func(b *bubble) { b.Redis.Set("{limiter}:value", "many") }, StateError{"{limiter}:value", "", "many"}},
		"value float":         {func(b *bubble) { b.Redis.Set("{limiter}:value", "1.5") }, StateError{"{limiter}:value", "", "1.5"}},
		"value as Lua prints": {func(b *bubble) { b.Redis.Set("{limiter}:value", "1e+17") }, StateError{"{limiter}:value", "", "1e+17"}},
		"value is a hash":     {func(b *bubble) { b.Redis.Del("{limiter}:value"); b.Redis.HSet("{limiter}:value", "a", "b") }, StateError{"{limiter}:value", "", "hash"}},
		"permits is a string": {func(b *bubble) { b.Redis.Del("{limiter}:permits"); b.Redis.Set("{limiter}:permits", "x") }, StateError{"{limiter}:permits", "", "string"}},
		"member too short": {func(b *bubble) {
			b.Redis.Del("{limiter}:permits")
			b.Redis.ZAdd("{limiter}:permits", 1, "abc")
			b.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()), "\x08abcdefgh\x01\x00\x00\x00")
		}, StateError{"{limiter}:permits", "member", "abc"}},
	}
	check := func(t *testing.T, test harmed, calls ...string) {
		inBubble(t, func(b *bubble) {
			l := b.limiter(Rate{Permits: 10, Interval: second})
			b.Take(l, 2)
			test.harm(b)
			before := b.Redis.Dump()
			for _, name := range calls {
				err := everyCall(l)[name](b.Context())
				var got *StateError
				require.ErrorAs(b, err, &got, name)
				assert.Equal(b, test.want, *got, name)
				assert.Contains(b, err.Error(), strconv.Quote(test.want.Key))
			}
			assert.Equal(b, before, b.Redis.Dump())
		})
	}
	acquiring := []string{"TryAcquire", "Take", "Acquire", "TryAcquireWithin", "Release", "AvailablePermits"}
	for name, test := range corrupt {
		t.Run(name, func(t *testing.T) { check(t, test, append(acquiring, "Config")...) })
	}
	for name, test := range state {
		t.Run(name, func(t *testing.T) { check(t, test, acquiring...) })
	}
}

func TestSetRateRepairs(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.Redis.HSet("limiter", "rate", "ten", "type", "x", "keepAliveTime", "-")
		b.Redis.HSet("{limiter}:value", "a", "b")
		require.NoError(b, b.Redis.Set("{limiter}:permits", "x"))
		b.Take(b.limiter(Rate{Permits: 3, Interval: second}), 3)
	})
}

func TestTryAcquire_MostPermitsOfAGrant(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 1 << 40, Interval: second})
		b.Take(l, maxGrant)
		b.Free(l, 1<<40-maxGrant)
		_, err := l.TryAcquire(b.Context(), maxGrant+1)
		require.ErrorIs(b, err, ErrInvalidPermits)
		require.ErrorIs(b, l.Acquire(b.Context(), maxGrant+1), ErrInvalidPermits)
		b.Free(l, 1<<40-maxGrant)
	})
}

// TestLostStateHeals: what was evicted never lets a window hold more than the rate, and never blocks for ever.
func TestLostStateHeals(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: second})
		b.Take(l, 7)
		b.Redis.Del("{limiter}:value")
		b.Free(l, 3)
		b.Full(l, 4)
		b.Take(l, 3)

		b.Redis.Del("{limiter}:permits")
		b.Free(l, 10)
		b.Take(l, 10)

		// More than the rate, as a lowered rate of another client leaves it.
		pass(second)
		b.Redis.Set("{limiter}:value", "50")
		b.Take(l, 10)
		b.Full(l, 1)
	})
}

func TestManyGrantsCountedAcrossCalls(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx := b.Context()
		l := b.limiter(Rate{Permits: 10_000, Interval: 10 * second})
		for range 1000 {
			b.Take(l, 2)
		}
		pass(5 * second)
		b.Take(l, 2)

		// The value alone is lost: 1001 grants are more than one call counts.
		b.Redis.Del("{limiter}:value")
		before := b.Scripts.Load()
		b.Free(l, 10_000-2002)
		assert.EqualValues(b, 4, b.Scripts.Load()-before)
		before = b.Scripts.Load()
		b.Take(l, 10_000-2002)
		assert.EqualValues(b, 4, b.Scripts.Load()-before)
		b.Full(l, 1)

		// 1000 grants leave the window while others stay: a call takes back a page of them, and no more than it needs.
		pass(5 * second)
		b.Free(l, 2000)
		before = b.Scripts.Load()
		b.Take(l, 3)
		assert.EqualValues(b, 1, b.Scripts.Load()-before)
		members, err := b.Redis.ZMembers("{limiter}:permits")
		require.NoError(b, err)
		assert.Len(b, members, 1001-256+2)
		b.Full(l, 2001)
		b.Take(l, 1997)
		b.Full(l, 1)

		// All have left: nothing is read one by one.
		pass(10 * second)
		before = b.Scripts.Load()
		b.Take(l, 10_000)
		assert.EqualValues(b, 1, b.Scripts.Load()-before)

		require.NoError(b, l.Release(ctx, 10_000))
	})
}

func TestReleaseTakesTheOldestGrantsBack(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx := b.Context()
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second})
		b.Take(l, 4)
		pass(second)
		b.Take(l, 6)
		require.NoError(b, l.Release(ctx, 5)) // the 4, and 1 of the 6
		b.Free(l, 5)
		b.Take(l, 5)
		pass(9 * second) // the 4 would be back now, had they not come before
		b.Full(l, 1)
		pass(second)
		b.Free(l, 10)

		require.NoError(b, l.Release(ctx, 3)) // of nothing
		b.Take(l, 10)
		require.NoError(b, l.Release(ctx, 100))
		b.Take(l, 10)
		b.Full(l, 1)
	})
}

// TestAReleaseThatFailsLosesNothing: what had left the window by then is back.
func TestAReleaseThatFailsLosesNothing(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second})
		b.Take(l, 4)
		pass(5 * second)
		_, err := b.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()-1), "abc")
		require.NoError(b, err)
		b.Take(l, 5)
		pass(5 * second)
		var state *StateError
		require.ErrorAs(b, l.Release(b.Context(), 1), &state)
		b.Free(l, 5)
	})
}

func TestReleaseOfManyGrants(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10_000, Interval: 10 * second})
		for range 1000 {
			b.Take(l, 1)
		}
		require.NoError(b, l.Release(b.Context(), 700))
		b.Free(l, 9700)
		members, err := b.Redis.ZMembers("{limiter}:permits")
		require.NoError(b, err)
		assert.Len(b, members, 300)
	})
}

func TestSetRateStartsAnew(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx := b.Context()
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second})
		b.Take(l, 10)
		require.NoError(b, l.SetRate(ctx, Rate{Permits: 5, Interval: second}))
		b.Take(l, 5)
		ok, err := l.TrySetRate(ctx, Rate{Permits: 50, Interval: second, KeepAlive: second})
		require.NoError(b, err)
		assert.False(b, ok)
		got, err := l.Config(ctx)
		require.NoError(b, err)
		assert.Equal(b, Rate{Permits: 5, Interval: second}, got)

		// Another type: nothing of the old one stays.
		ok, err = l.UpdateRate(ctx, Rate{Type: PerClient, Permits: 2, Interval: second}, KeepState())
		require.NoError(b, err)
		assert.True(b, ok)
		assert.Equal(b, []string{"limiter"}, b.Redis.Keys())
	})
}

func TestKeepStateKeepsWhatIsTaken(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx := b.Context()
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second})
		b.Take(l, 3)
		pass(4 * second)
		b.Take(l, 5)
		keep := func(permits int64, interval time.Duration) {
			require.NoError(b, l.SetRate(ctx, Rate{Permits: permits, Interval: interval}, KeepState()))
		}
		keep(20, 10*second)
		b.Free(l, 12)
		keep(6, 10*second) // 8 are taken: a deficit of 2
		b.Free(l, 0)
		d, err := l.Take(ctx, 2)
		require.NoError(b, err)
		assert.Equal(b, Decision{Limit: 6, RetryAfter: 10 * second, ResetAfter: 10 * second}, d)
		keep(6, 4*second) // the 3 have left the shorter interval
		b.Free(l, 1)
		pass(4 * second)
		b.Take(l, 6)
	})
}

func TestKeepStateOfManyGrants(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10_000, Interval: 10 * second})
		for range 1000 {
			b.Take(l, 2)
		}
		before := b.Scripts.Load()
		require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 1500, Interval: 10 * second}, KeepState()))
		assert.EqualValues(b, 1, b.Scripts.Load()-before)
		b.Full(l, 1)
		require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 2500, Interval: 10 * second}, KeepState()))
		b.Take(l, 500)
		b.Full(l, 1)
		pass(10 * second)
		b.Take(l, 2500)
	})
}

func TestSetRateAndTheOldExpiry(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx := b.Context()
		l := b.limiter(Rate{Permits: 10, Interval: second, KeepAlive: time.Minute})
		b.Take(l, 1)
		require.NoError(b, l.SetRate(ctx, Rate{Permits: 10, Interval: second}, KeepState()))
		pass(time.Hour)
		assert.Len(b, b.Redis.Keys(), 3, "the TTL of the old keep-alive is gone")

		_, err := l.Expire(ctx, time.Minute)
		require.NoError(b, err)
		require.NoError(b, l.SetRate(ctx, Rate{Permits: 10, Interval: second}))
		b.Take(l, 1)
		pass(time.Hour)
		assert.Empty(b, b.Redis.Keys(), "the TTL of Expire stays, and state made later shares it")
	})
}

func TestClocks(t *testing.T) {
	t.Run("jumps back", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			var skew time.Duration
			l := b.limiter(Rate{Permits: 10, Interval: 10 * second}, WithClock(func() time.Time { return time.Now().Add(skew) }))
			b.Take(l, 6)
			skew = -time.Hour
			b.Free(l, 4)
			b.Take(l, 4)
			b.Full(l, 1)
			pass(10 * second)
			b.Free(l, 4) // those dated by the clock that is back; the 6 stay for the hour that it jumped
			pass(time.Hour)
			b.Take(l, 10)
		})
	})
	t.Run("is ahead by an hour", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			here := b.limiter(Rate{Permits: 10, Interval: 10 * second})
			ahead := New(b.Conn, WithClock(func() time.Time { return time.Now().Add(time.Hour) })).Limiter("limiter")
			b.Take(here, 10)
			b.Take(ahead, 10)
			b.Full(ahead, 1)
			b.Full(here, 1)
			b.Free(here, 0)
			pass(time.Hour + 10*second)
			b.Take(here, 10)
		})
	})
	t.Run("is the server's", func(t *testing.T) {
		inBubble(t, func(b *bubble) {
			wrong := func() time.Time { return time.Unix(1, 0) }
			l := b.limiter(Rate{Permits: 10, Interval: 10 * second}, WithClock(wrong), WithServerTime())
			b.Take(l, 10)
			score, err := b.Redis.ZScore("{limiter}:permits", firstMember(b))
			require.NoError(b, err)
			assert.EqualValues(b, time.Now().UnixMilli(), score)
			pass(10 * second)
			b.Free(l, 10)
			require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 5, Interval: second}, KeepState()))
			b.Take(l, 5)
			require.NoError(b, l.Release(b.Context(), 5))
			require.NoError(b, l.Acquire(b.Context(), 5))
			require.NoError(b, l.Acquire(b.Context(), 5))
		})
	})
}

func firstMember(b *bubble) string {
	members, err := b.Redis.ZMembers("{limiter}:permits")
	require.NoError(b, err)
	return members[0]
}

// TestRedisErrorsStayReachable, under the name of the limiter.
func TestRedisErrorsStayReachable(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 1, Interval: second})
		b.Redis.SetError("OOM command not allowed when used memory > 'maxmemory'.")
		for name, call := range everyCall(l) {
			if name == "Release(0)" {
				continue
			}
			err := call(b.Context())
			var redisErr *rueidis.RedisError
			require.ErrorAs(b, err, &redisErr, name)
			assert.Contains(b, err.Error(), `"limiter"`, name)
		}
	})
}

func TestStringsAreReadable(t *testing.T) {
	assert.Equal(t, "OVERALL PER_CLIENT RateType(7)", fmt.Sprint(Overall, PerClient, RateType(7)))
	assert.Equal(t, `rratelimiter: field "rate" of key "api" holds "ten", which is not a limiter's: repair or delete it`,
		(&StateError{Key: "api", Field: "rate", Value: "ten"}).Error())
}
