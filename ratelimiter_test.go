package rratelimiter

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTryAcquire_Window_Slides: each grant returns an interval after it was made.
func TestTryAcquire_Window_Slides(t *testing.T) {
	for _, typ := range []RateType{Overall, PerClient} {
		t.Run(typ.String(), func(t *testing.T) {
			withRedis(t, func(b *fixture) {
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
		})
	}
}

func TestTake_Decision_HasExactTimes(t *testing.T) {
	withRedis(t, func(b *fixture) {
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

func TestKeepAlive_LimiterIsUnused_IsDeleted(t *testing.T) {
	withRedis(t, func(b *fixture) {
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

// TestLimiter_ContextEnds_CallReturns: even if Redis does not reply.
func TestLimiter_ContextEnds_CallReturns(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		if name == "Release(0)" {
			continue // makes no call
		}
		t.Run(name, func(t *testing.T) {
			withRedis(t, func(b *fixture) {
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

func TestLimiter_RateIsNotSet_ReturnsErrNotInitialized(t *testing.T) {
	withRedis(t, func(b *fixture) {
		ctx, l := b.Context(), New(b.Conn).Limiter("limiter")
		for _, name := range []string{
			"TryAcquire", "Acquire", "TryAcquireWithin", "Take", "Release", "AvailablePermits", "Config", "Rename", "Copy",
		} {
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

// TestStateError_CorruptState_NamesKeyAndField: nothing is granted or changed.
func TestStateError_CorruptState_NamesKeyAndField(t *testing.T) {
	type harmed struct {
		harm func(b *fixture)
		want StateError
	}
	corrupt := map[string]harmed{}
	for _, field := range []string{"rate", "interval", "type", "keepAliveTime"} {
		for _, value := range []string{"", "ten", "-1", "1.5", "1e3", "0x10", " 7", "7\x00"} {
			corrupt[field+" "+strconv.Quote(value)] = harmed{
				func(b *fixture) { b.Redis.HSet("limiter", field, value) }, StateError{"limiter", field, value}}
		}
	}
	corrupt["type 2"] = harmed{func(b *fixture) { b.Redis.HSet("limiter", "type", "2") },
		StateError{"limiter", "type", "2"}}
	corrupt["rate above 2^53"] = harmed{func(b *fixture) { b.Redis.HSet("limiter", "rate", "9007199254740993") },
		StateError{"limiter", "rate", "9007199254740993"}}
	corrupt["configuration is a list"] = harmed{func(b *fixture) { b.Redis.Del("limiter"); b.Redis.Lpush("limiter", "x") },
		StateError{"limiter", "", "list"}}
	state := map[string]harmed{
		"value text": {func(b *fixture) { b.Redis.Set("{limiter}:value", "many") },
			StateError{"{limiter}:value", "", "many"}},
		"value float": {func(b *fixture) { b.Redis.Set("{limiter}:value", "1.5") },
			StateError{"{limiter}:value", "", "1.5"}},
		"value as Lua prints": {func(b *fixture) { b.Redis.Set("{limiter}:value", "1e+17") },
			StateError{"{limiter}:value", "", "1e+17"}},
		"value is a hash": {func(b *fixture) { b.Redis.Del("{limiter}:value"); b.Redis.HSet("{limiter}:value", "a", "b") },
			StateError{"{limiter}:value", "", "hash"}},
		"permits is a string": {func(b *fixture) { b.Redis.Del("{limiter}:permits"); b.Redis.Set("{limiter}:permits", "x") },
			StateError{"{limiter}:permits", "", "string"}},
		"member too short": {func(b *fixture) {
			b.Redis.Del("{limiter}:permits")
			b.Redis.ZAdd("{limiter}:permits", 1, "abc")
			b.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()), "\x08abcdefgh\x01\x00\x00\x00")
		}, StateError{"{limiter}:permits", "member", "abc"}},
	}
	check := func(t *testing.T, test harmed, calls ...string) {
		withRedis(t, func(b *fixture) {
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

func TestTryAcquire_MostPermitsOfAGrant_AreTheBound(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 1 << 40, Interval: second})
		b.Take(l, maxGrant)
		b.Free(l, 1<<40-maxGrant)
		_, err := l.TryAcquire(b.Context(), maxGrant+1)
		require.ErrorIs(b, err, ErrInvalidPermits)
		require.ErrorIs(b, l.Acquire(b.Context(), maxGrant+1), ErrInvalidPermits)
		b.Free(l, 1<<40-maxGrant)
	})
}

// TestTryAcquire_StateIsLost_WindowIsKept: after an eviction no window holds more than the rate,
// and the limiter does not block for ever.
func TestTryAcquire_StateIsLost_WindowIsKept(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: second})
		b.Take(l, 7)
		b.Redis.Del("{limiter}:value")
		b.Free(l, 3)
		b.Full(l, 4)
		b.Take(l, 3)

		b.Redis.Del("{limiter}:permits")
		b.Free(l, 10)
		b.Take(l, 10)

		// More than the rate, as after another client has lowered the rate.
		pass(second)
		b.Redis.Set("{limiter}:value", "50")
		b.Take(l, 10)
		b.Full(l, 1)
	})
}

func TestTryAcquire_ManyGrants_AreCountedOverSeveralCalls(t *testing.T) {
	withRedis(t, func(b *fixture) {
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

		// 1000 grants expire while others stay: a call removes a page of them, and only as many
		// more as it needs.
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

		// All have expired: no grant is read one by one.
		pass(10 * second)
		before = b.Scripts.Load()
		b.Take(l, 10_000)
		assert.EqualValues(b, 1, b.Scripts.Load()-before)

		require.NoError(b, l.Release(ctx, 10_000))
	})
}

// TestLimiter_RedisFails_ErrorIsReachable: the error contains the name of the limiter.
func TestLimiter_RedisFails_ErrorIsReachable(t *testing.T) {
	withRedis(t, func(b *fixture) {
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

func TestString_TypesAndErrors_AreReadable(t *testing.T) {
	assert.Equal(t, "OVERALL PER_CLIENT RateType(7)", fmt.Sprint(Overall, PerClient, RateType(7)))
	assert.Equal(t, `rratelimiter: field "rate" of key "api" holds "ten", which is not a limiter's: repair or delete it`,
		(&StateError{Key: "api", Field: "rate", Value: "ten"}).Error())
}

func TestTryAcquire_ValueAboveTheRate_GrantsCount(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: second})
		b.Take(l, 4)
		require.NoError(b, b.Redis.Set("{limiter}:value", "50"))
		b.Free(l, 10)
		b.Take(l, 3)
		b.Free(l, 3)
		b.Take(l, 3)
		b.Full(l, 1)
	})
}

// TestTake_GrantOfNoPermits_IsNoReturn: Redisson makes a grant of no permits for a call with 0. A
// denied caller does not wait for it.
func TestTake_GrantOfNoPermits_IsNoReturn(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: 10 * second})
		nothing := string(rune(16)) + strings.Repeat("r", 16) + strings.Repeat("\x00", 4)
		_, err := b.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()), nothing)
		require.NoError(b, err)
		require.NoError(b, b.Redis.Set("{limiter}:value", strconv.Itoa(10)))
		pass(3 * second)
		b.Take(l, 10)
		d, err := l.Take(b.Context(), 1)
		require.NoError(b, err)
		assert.Equal(b, Decision{Limit: 10, RetryAfter: 10 * second, ResetAfter: 10 * second}, d)
	})
}

// TestLimiter_RequestAboveTheRate_ChangesNothing: as in Redisson, such a request removes no expired
// grant and keeps no limiter alive.
func TestLimiter_RequestAboveTheRate_ChangesNothing(t *testing.T) {
	ctx := context.Background()
	server := miniredis.RunT(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true,
	})
	require.NoError(t, err)
	defer client.Close()
	now := time.UnixMilli(1_700_000_000_000)
	l := New(client, WithClock(func() time.Time { return now })).Limiter("small")
	require.NoError(t, l.SetRate(ctx, Rate{Permits: 10, Interval: time.Minute, KeepAlive: time.Hour}))

	calls := map[string]func() error{
		"TryAcquire":       func() error { _, err := l.TryAcquire(ctx, 11); return err },
		"Take":             func() error { _, err := l.Take(ctx, 11); return err },
		"TryAcquireWithin": func() error { _, err := l.TryAcquireWithin(ctx, 11, time.Second); return err },
		"Acquire":          func() error { return l.Acquire(ctx, 11) },
	}
	unchanged := func() {
		t.Helper()
		before := server.Dump()
		server.FastForward(time.Minute)
		ttl := server.TTL("small")
		for name, call := range calls {
			require.ErrorIs(t, call(), ErrPermitsExceedRate, name)
			require.Equal(t, before, server.Dump(), name)
			require.Equal(t, ttl, server.TTL("small"), "%s keeps the limiter alive", name)
		}
	}
	unchanged() // a fresh limiter has no value, and gets none

	granted, err := l.TryAcquire(ctx, 7)
	require.NoError(t, err)
	require.True(t, granted)
	now = now.Add(2 * time.Minute)
	unchanged() // the grant has expired, and stays until the next grant
}

// TestLimiter_EveryCall_IsOneRoundTrip: once its script is loaded. After SCRIPT FLUSH or a restart
// it is one more, without an error.
func TestLimiter_EveryCall_IsOneRoundTrip(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		t.Run(name, func(t *testing.T) {
			withRedis(t, func(b *fixture) {
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
				want, flushed := int64(1), int64(2)
				switch name {
				case "Config", "Exists", "RemainTimeToLive", "Touch", "SizeInMemory", "Unlink", "Delete":
					flushed = 1 // a command, no script
				case "Release(0)":
					want, flushed = 0, 0
				}
				assert.Equal(b, want, call(loaded), "round trips")
				assert.Equal(b, flushed, call(flush), "round trips after SCRIPT FLUSH")
			})
		})
	}
}

// TestLimiter_Outage_CallsEndWithTheirCallers: every call returns an error, and no retry runs once
// its callers have left.
func TestLimiter_Outage_CallsEndWithTheirCallers(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		if name == "Release(0)" {
			continue
		}
		for kind, opts := range map[string][]Option{"": nil, ", with a denial cache": {WithDenialCache(time.Hour)}} {
			t.Run(name+kind, func(t *testing.T) {
				withRedis(t, func(b *fixture) {
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
					l := New(conn, opts...).Limiter("limiter")
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
			})
		}
	}
}
