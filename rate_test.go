package rratelimiter

import (
	"context"
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSetRate_State_IsReset(t *testing.T) {
	withRedis(t, func(b *fixture) {
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

		// Another type: no state of the old one stays.
		ok, err = l.UpdateRate(ctx, Rate{Type: PerClient, Permits: 2, Interval: second}, KeepState())
		require.NoError(b, err)
		assert.True(b, ok)
		assert.Equal(b, []string{"limiter"}, b.Redis.Keys())
	})
}

func TestSetRate_CorruptState_IsRepaired(t *testing.T) {
	withRedis(t, func(b *fixture) {
		b.Redis.HSet("limiter", "rate", "ten", "type", "x", "keepAliveTime", "-")
		b.Redis.HSet("{limiter}:value", "a", "b")
		require.NoError(b, b.Redis.Set("{limiter}:permits", "x"))
		b.Take(b.limiter(Rate{Permits: 3, Interval: second}), 3)
	})
}

func TestSetRate_OldExpiry_KeepAliveGoesAndExpireStays(t *testing.T) {
	withRedis(t, func(b *fixture) {
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

func TestKeepState_Grants_StayTaken(t *testing.T) {
	withRedis(t, func(b *fixture) {
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

func TestKeepState_ManyGrants_AreCountedInOneCall(t *testing.T) {
	withRedis(t, func(b *fixture) {
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

// TestKeepState_ShorterInterval_ExpiresGrantsToTheMillisecond: by the Client's clock and by the
// server's.
func TestKeepState_ShorterInterval_ExpiresGrantsToTheMillisecond(t *testing.T) {
	for _, opts := range [][]Option{nil, {WithServerTime()}} {
		withRedis(t, func(b *fixture) {
			l := b.limiter(Rate{Permits: 10, Interval: time.Minute}, opts...)
			b.Take(l, 4)
			pass(1234 * time.Millisecond)
			b.Take(l, 3)
			pass(5 * second)
			require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: 5*second + time.Millisecond}, KeepState()))
			b.Free(l, 7)
			require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: 5 * second}, KeepState()))
			b.Free(l, 10)
			assert.Empty(b, b.grants())
		})
	}
}

// TestKeepState_ValueIsLostOrTooLarge_GrantsCount: there are more grants than a call counts.
func TestKeepState_ValueIsLostOrTooLarge_GrantsCount(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10_000, Interval: 10 * second})
		for range 300 {
			b.Take(l, 1)
		}
		b.Redis.Del("{limiter}:value")
		require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 400, Interval: 10 * second}, KeepState()))
		b.Free(l, 100)
		b.Take(l, 1)

		require.NoError(b, b.Redis.Set("{limiter}:value", "20000"))
		require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 500, Interval: 10 * second}, KeepState()))
		value, err := b.Redis.Get("{limiter}:value")
		require.NoError(b, err)
		assert.Equal(b, "500", value)
	})
}

// TestKeepState_ConfigurationIsLost_GrantsCount: Redis evicted the configuration. A rate that keeps
// the state counts the grants, as in Redisson. Otherwise the window would hold 10 + 10 permits for
// a rate of 10.
func TestKeepState_ConfigurationIsLost_GrantsCount(t *testing.T) {
	ctx := context.Background()
	for _, kind := range []RateType{Overall, PerClient} {
		t.Run(kind.String(), func(t *testing.T) {
			server := miniredis.RunT(t)
			client, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true,
			})
			require.NoError(t, err)
			defer client.Close()
			now := time.UnixMilli(1_700_000_000_000)
			l := New(client, WithClock(func() time.Time { return now })).Limiter("lost")
			rate := Rate{Type: kind, Permits: 10, Interval: time.Minute}
			require.NoError(t, l.SetRate(ctx, rate))
			granted, err := l.TryAcquire(ctx, 10)
			require.NoError(t, err)
			require.True(t, granted)

			require.True(t, server.Del("lost"))
			now = now.Add(time.Second)
			updated, err := l.UpdateRate(ctx, rate, KeepState())
			require.NoError(t, err)
			require.False(t, updated, "there is no limiter to update")
			require.NoError(t, l.SetRate(ctx, rate, KeepState()))
			granted, err = l.TryAcquire(ctx, 1)
			require.NoError(t, err)
			require.False(t, granted)

			now = now.Add(time.Minute)
			granted, err = l.TryAcquire(ctx, 10)
			require.NoError(t, err)
			require.True(t, granted)
		})
	}
}

// TestTrySetRate_PartOfAConfiguration_TypeDecides: for TrySetRate a limiter exists if its type is
// set, as in Redisson. For UpdateRate any field suffices.
func TestTrySetRate_PartOfAConfiguration_TypeDecides(t *testing.T) {
	withRedis(t, func(b *fixture) {
		ctx, l, rate := b.Context(), New(b.Conn).Limiter("limiter"), Rate{Permits: 10, Interval: second}
		b.Redis.HSet("limiter", "rate", "7", "interval", "2000")
		set, err := l.TrySetRate(ctx, rate)
		require.NoError(b, err)
		assert.True(b, set)
		config, err := l.Config(ctx)
		require.NoError(b, err)
		assert.Equal(b, Rate{Permits: 7, Interval: 2 * second}, config, "what was there stays")
		set, err = l.TrySetRate(ctx, rate)
		require.NoError(b, err)
		assert.False(b, set)

		b.Redis.FlushAll()
		b.Redis.HSet("limiter", "type", "0")
		set, err = l.TrySetRate(ctx, rate)
		require.NoError(b, err)
		assert.False(b, set)
		b.Redis.FlushAll()
		b.Redis.HSet("limiter", "rate", "7")
		updated, err := l.UpdateRate(ctx, rate)
		require.NoError(b, err)
		assert.True(b, updated)
		config, err = l.Config(ctx)
		require.NoError(b, err)
		assert.Equal(b, rate, config)
	})
}

func TestConfig_LongestTimes_AreCutToDurations(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := New(b.Conn).Limiter("limiter")
		b.Redis.HSet("limiter", "rate", "9007199254740992", "interval", "9223372036854775808", "type", "0", "keepAliveTime",
			"999999999999999")
		rate, err := l.Config(b.Context())
		require.NoError(b, err)
		assert.Equal(b, Rate{Permits: maxPermits, Interval: millis(math.MaxInt64), KeepAlive: millis(math.MaxInt64)}, rate)
	})
}

// TestConfig_RateAbove2To53_IsAStateError: a larger number has no exact value in a script.
func TestConfig_RateAbove2To53_IsAStateError(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: maxPermits, Interval: second})
		for _, text := range []string{"9007199254740993", "09007199254740992"} {
			b.Redis.HSet("limiter", "rate", text)
			var state *StateError
			_, err := l.Config(b.Context())
			assert.ErrorAs(b, err, &state, text)
			_, err = l.TryAcquire(b.Context(), 1)
			assert.ErrorAs(b, err, &state, text)
		}
	})
}

func FuzzOptions(f *testing.F) {
	f.Add(0, int64(10), int64(time.Second), int64(0), int64(1), int64(time.Second), int64(0), byte(0), byte(0), false)
	f.Add(1, int64(1<<53), int64(1<<63-1)/1e6*1e6, int64(1<<63-1)/1e6*1e6, int64(1<<53), int64(-1), int64(1<<62),
		byte(1), byte(3), true)
	f.Add(2, int64(0), int64(0), int64(-1), int64(0), int64(-1<<63), int64(-1<<63), byte(2), byte(2), true)
	f.Add(-1, int64(-1), int64(1), int64(1), int64(1<<53+1), int64(1), int64(1<<63-1), byte(3), byte(4), true)
	f.Add(0, int64(5), int64(time.Second), int64(time.Millisecond), int64(6), int64(1<<63-1), int64(1e12), byte(5),
		byte(255), false)
	server, client := fuzzServer(f)
	f.Fuzz(func(t *testing.T, rateType int, ratePermits, interval, keepAlive, permits, duration, moment int64, first,
		second byte, keepState bool) {
		server.FlushAll()
		l := New(client, WithClock(func() time.Time { return fuzzEpoch })).Limiter("o")
		// call requires that a refused call returns the right error and sends nothing.
		call := func(refusal error, what func() error) {
			t.Helper()
			before := server.CommandCount()
			err := what()
			if refusal != nil {
				require.ErrorIs(t, err, refusal)
				require.Equal(t, before, server.CommandCount(), "nothing is sent")
			} else {
				require.NoError(t, err)
			}
		}
		only := func(_ bool, err error) error { return err }
		ctx := t.Context()
		timeout := time.Duration(duration)
		if timeout > 0 {
			timeout = max(timeout, time.Minute) // a shorter one may end before the call to Redis
		}

		rate := Rate{Type: RateType(rateType), Permits: ratePermits, Interval: time.Duration(interval),
			KeepAlive: time.Duration(keepAlive)}
		var badRate error
		if rateType < 0 || rateType > 1 || ratePermits < 1 || ratePermits > 1<<53 || interval < 1 || interval%1e6 != 0 ||
			keepAlive < 0 || keepAlive%1e6 != 0 || keepAlive != 0 && keepAlive < interval {
			badRate = ErrInvalidRate
		}
		var opts []SetRateOption
		if keepState {
			opts = []SetRateOption{nil, KeepState()}
		}
		call(badRate, func() error { return only(l.TrySetRate(ctx, rate)) })
		call(badRate, func() error { return only(l.UpdateRate(ctx, rate, opts...)) })
		call(badRate, func() error { return l.SetRate(ctx, rate, opts...) })
		if badRate != nil {
			rate = Rate{Permits: 1 << 53, Interval: time.Second}
			require.NoError(t, l.SetRate(ctx, rate))
		}
		kept, err := l.Config(ctx)
		require.NoError(t, err)
		require.Equal(t, rate, kept)

		switch {
		case permits < 1 || permits > maxGrant:
			call(ErrInvalidPermits, func() error { return only(l.TryAcquire(ctx, permits)) })
			call(ErrInvalidPermits, func() error { return only(l.TryAcquireWithin(ctx, permits, timeout)) })
			call(ErrInvalidPermits, func() error { return l.Acquire(ctx, permits) })
		case permits > rate.Permits:
			require.ErrorIs(t, only(l.TryAcquire(ctx, permits)), ErrPermitsExceedRate)
			require.ErrorIs(t, only(l.TryAcquireWithin(ctx, permits, timeout)), ErrPermitsExceedRate)
			require.ErrorIs(t, l.Acquire(ctx, permits), ErrPermitsExceedRate)
		case permits <= 1<<36: // more permits are many members, for which this server takes long
			granted, err := l.TryAcquireWithin(ctx, permits, timeout)
			require.NoError(t, err)
			require.True(t, granted)
			free, err := l.AvailablePermits(ctx)
			require.NoError(t, err)
			require.Equal(t, rate.Permits-permits, free)
		}
		var badRelease error
		if permits < 0 || permits > 1<<53 {
			badRelease = ErrInvalidPermits
		}
		call(badRelease, func() error { return l.Release(ctx, permits) })
		free, err := l.AvailablePermits(ctx)
		require.NoError(t, err)
		require.Equal(t, rate.Permits, free)

		conditions := []ExpireOption{ExpireOption(first), ExpireOption(second)}
		var badOption error
		has := func(o ExpireOption) bool { return slices.Contains(conditions, o) }
		if max(first, second) > byte(IfLess) || has(IfNotSet) && (has(IfSet) || has(IfGreater) ||
			has(IfLess)) || has(IfGreater) && has(IfLess) {
			badOption = ErrInvalidOption
		}
		call(badOption, func() error { return only(l.Expire(ctx, time.Duration(duration), conditions...)) })
		call(badOption, func() error { return only(l.ExpireAt(ctx, time.Unix(0, moment), conditions...)) })
	})
}

// kind is the class of an error that a caller can distinguish, or "other".
func kind(err error) string {
	var state *StateError
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &state):
		return "state"
	case errors.Is(err, ErrNotInitialized):
		return "not initialized"
	case errors.Is(err, ErrPermitsExceedRate):
		return "exceed"
	}
	return "other: " + err.Error()
}

// wholeNumber matches texts that Redis itself accepts as numbers, up to a length that no rate has.
var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,15}|[1-9][0-9]{16})$`)

func FuzzConfigurations(f *testing.F) {
	f.Add("10", "1000", "0", "0", byte(0b1111), "5")
	f.Add("10", "1000", "1", "", byte(0b0111), "")
	f.Add("", "", "", "", byte(0), "")
	f.Add("0", "0", "0", "0", byte(0b1111), "5")
	f.Add("010", "01000", "01", "05000", byte(0b1111), "5")
	f.Add("9007199254740992", "9223372036854775807", "0", "9223372036854775807", byte(0b1111), "5")
	f.Add("9007199254740993", "9223372036854775808", "0", "999999999999999", byte(0b1111), "5")
	f.Add("1e3", "0x10", "0", "-1", byte(0b1111), "5")
	f.Add(" 10", "10\n", "0\x00", "inf", byte(0b1111), "5")
	f.Add("10.0", "nan", "2", "0", byte(0b1111), "5")
	f.Add("10", "1000", "0", "05000", byte(0b1111), "")
	for _, value := range []string{"0", "-0", "007", "-5", "+5", "11", "1e3", "99999999999999999999999",
		"-99999999999999999999999", " 5", "nan"} {
		f.Add("10", "1000", "0", "0", byte(0b1111), value)
	}
	server, client := fuzzServer(f)
	f.Fuzz(func(t *testing.T, rate, interval, rateType, keepAlive string, present byte, value string) {
		server.FlushAll()
		l := New(client, WithClock(func() time.Time { return fuzzEpoch })).Limiter("c")
		texts := map[string]string{}
		for i, field := range []string{"rate", "interval", "type", "keepAliveTime"} {
			text := []string{rate, interval, rateType, keepAlive}[i]
			// In a script of this server an empty field is absent, and its Lua has no numbers above
			// the largest int64. integration/faults/corruption tests a real server with these.
			_, err := strconv.ParseInt(text, 10, 64)
			if present>>i&1 == 1 && text != "" && !errors.Is(err, strconv.ErrRange) {
				texts[field] = text
				server.HSet("c", field, text)
			}
		}

		if value != "" {
			require.NoError(t, server.Set(l.wire.keys[valueKey], value))
			require.NoError(t, server.Set(l.wire.keys[clientValueKey], value))
			_, err := server.ZAdd(l.wire.keys[permitsKey], float64(fuzzEpoch.UnixMilli()), "\x00\x01\x00\x00\x00")
			require.NoError(t, err)
			_, err = server.ZAdd(l.wire.keys[clientPermitsKey], float64(fuzzEpoch.UnixMilli()), "\x00\x01\x00\x00\x00")
			require.NoError(t, err)
		}
		keysBefore := len(server.Keys())

		config, err := l.Config(t.Context())
		want := kind(err)
		if want == "none" && value != "" && !wholeNumber.MatchString(value) {
			key := l.wire.keys[map[RateType]int{Overall: valueKey, PerClient: clientValueKey}[config.Type]]
			_, err := l.AvailablePermits(t.Context())
			require.Equal(t, &StateError{Key: key, Value: value}, err)
			granted, err := l.TryAcquire(t.Context(), 1)
			require.Equal(t, &StateError{Key: key, Value: value}, err)
			require.False(t, granted)
			return
		}
		free, freeErr := l.AvailablePermits(t.Context())
		require.Equal(t, want, kind(freeErr), "Config says %v, AvailablePermits %v", err, freeErr)
		granted, takeErr := l.TryAcquire(t.Context(), 1)
		if want == "none" && config.Permits == 0 {
			require.ErrorIs(t, takeErr, ErrPermitsExceedRate)
		} else {
			require.Equal(t, want, kind(takeErr), "Config says %v, TryAcquire %v", err, takeErr)
		}
		for _, err := range []error{err, freeErr, takeErr} {
			var state *StateError
			if errors.As(err, &state) {
				require.Equal(t, StateError{Key: "c", Field: state.Field, Value: texts[state.Field]}, *state)
			}
		}
		switch want {
		case "none":
			require.LessOrEqual(t, free, config.Permits)
			require.GreaterOrEqual(t, free, int64(0))
			if free > 0 {
				require.True(t, granted)
			}
		case "not initialized":
			require.Less(t, len(texts), 4)
		case "state":
			require.False(t, granted)
			require.Len(t, server.Keys(), keysBefore, "nothing was taken")
			require.NoError(t, l.SetRate(t.Context(), Rate{Permits: 10, Interval: time.Second}), "SetRate repairs")
			granted, err := l.TryAcquire(t.Context(), 10)
			require.NoError(t, err)
			require.True(t, granted)
		default:
			require.Fail(t, "an error that a caller cannot tell apart", "%v", err)
		}
	})
}

// TestKeepState_CorruptState_IsAStateError: the rate is not set, and nothing is changed.
func TestKeepState_CorruptState_IsAStateError(t *testing.T) {
	for name, corrupt := range map[string]func(*fixture) *StateError{
		"value": func(b *fixture) *StateError {
			require.NoError(b, b.Redis.Set("{limiter}:value", "ten"))
			return &StateError{Key: "{limiter}:value", Value: "ten"}
		},
		"member": func(b *fixture) *StateError {
			_, err := b.Redis.ZAdd("{limiter}:permits", 2e12, "abc")
			require.NoError(b, err)
			return &StateError{Key: "{limiter}:permits", Field: "member", Value: "abc"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			withRedis(t, func(b *fixture) {
				l := b.limiter(Rate{Permits: 5, Interval: second})
				b.Take(l, 1)
				want := corrupt(b)
				before := b.Redis.Dump()
				err := l.SetRate(b.Context(), Rate{Permits: 9, Interval: second}, KeepState())
				var got *StateError
				require.ErrorAs(b, err, &got)
				assert.Equal(b, want, got)
				assert.Equal(b, before, b.Redis.Dump())
			})
		})
	}
}
