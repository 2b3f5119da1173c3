package rratelimiter

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"testing"
	"time"

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
		b.no(l.TrySetRate(ctx, Rate{Permits: 50, Interval: second, KeepAlive: second}))
		got := b.configured(l)
		assert.Equal(b, Rate{Permits: 5, Interval: second}, got)

		// Another type: no state of the old one stays.
		b.yes(l.UpdateRate(ctx, Rate{Type: PerClient, Permits: 2, Interval: second}, KeepState()))
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

		b.must(l.Expire(ctx, time.Minute))
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
		d := b.decision(l, 2)
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
	for _, kind := range []RateType{Overall, PerClient} {
		withRedis(t, func(b *fixture) {
			rate := Rate{Type: kind, Permits: 10, Interval: time.Minute}
			l := b.limiter(rate)
			b.Take(l, 10)
			require.True(b, b.Redis.Del("limiter"))
			pass(second)
			b.no(l.UpdateRate(b.Context(), rate, KeepState())) // there is no limiter to update
			require.NoError(b, l.SetRate(b.Context(), rate, KeepState()))
			b.Full(l, 1)
			pass(time.Minute)
			b.Take(l, 10)
		})
	}
}

// TestTrySetRate_PartOfAConfiguration_TypeDecides: for TrySetRate a limiter exists if its type is
// set, as in Redisson. For UpdateRate any field suffices.
func TestTrySetRate_PartOfAConfiguration_TypeDecides(t *testing.T) {
	withRedis(t, func(b *fixture) {
		ctx, l, rate := b.Context(), New(b.Conn).Limiter("limiter"), Rate{Permits: 10, Interval: second}
		b.Redis.HSet("limiter", "rate", "7", "interval", "2000")
		b.yes(l.TrySetRate(ctx, rate))
		config := b.configured(l)
		assert.Equal(b, Rate{Permits: 7, Interval: 2 * second}, config, "what was there stays")
		b.no(l.TrySetRate(ctx, rate))

		b.Redis.FlushAll()
		b.Redis.HSet("limiter", "type", "0")
		b.no(l.TrySetRate(ctx, rate))
		b.Redis.FlushAll()
		b.Redis.HSet("limiter", "rate", "7")
		b.yes(l.UpdateRate(ctx, rate))
		config = b.configured(l)
		assert.Equal(b, rate, config)
	})
}

func TestConfig_LongestTimes_AreCutToDurations(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := New(b.Conn).Limiter("limiter")
		b.Redis.HSet("limiter", "rate", "9007199254740992", "interval", "9223372036854775808", "type", "0", "keepAliveTime",
			"999999999999999")
		rate := b.configured(l)
		assert.Equal(b, Rate{Permits: maxPermits, Interval: millis(math.MaxInt64), KeepAlive: millis(math.MaxInt64)}, rate)
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
