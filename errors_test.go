package rratelimiter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		b.no(l.UpdateRate(ctx, Rate{Permits: 1, Interval: second}))
		assert.Empty(b, b.Redis.Keys())
	})
}

// TestStateError_CorruptState_NamesKeyAndField: nothing is granted or changed.
func TestStateError_CorruptState_NamesKeyAndField(t *testing.T) {
	check := func(name string, harm func(b *fixture), want StateError, calls ...string) {
		runWithRedis(t, name, func(b *fixture) {
			l := b.limiter(Rate{Permits: 10, Interval: second})
			b.Take(l, 2)
			harm(b)
			before := b.Redis.Dump()
			calls = append(calls, "TryAcquire", "Take", "Acquire", "TryAcquireWithin", "Release", "AvailablePermits")
			for _, call := range calls {
				err := everyCall(l)[call](b.Context())
				var got *StateError
				require.ErrorAs(b, err, &got, call)
				assert.Equal(b, want, *got, call)
				assert.Contains(b, err.Error(), strconv.Quote(want.Key))
			}
			assert.Equal(b, before, b.Redis.Dump())
			if want.Value != "list" {
				b.Take(b.limiter(Rate{Permits: 10, Interval: second}), 10) // SetRate repairs the limiter
			}
		})
	}
	fields := [][2]string{{"type", "2"}, {"rate", "9007199254740993"}, {"rate", "09007199254740992"}}
	for _, field := range []string{"rate", "interval", "type", "keepAliveTime"} {
		for _, value := range []string{"", "ten", "-1", "1.5", "1e3", "0x10", " 7", "7\x00"} {
			fields = append(fields, [2]string{field, value})
		}
	}
	for _, f := range fields {
		check(fmt.Sprintf("%s %q", f[0], f[1]), func(b *fixture) { b.Redis.HSet("limiter", f[0], f[1]) },
			StateError{"limiter", f[0], f[1]}, "Config")
	}
	check("configuration is a list", func(b *fixture) { b.Redis.Del("limiter"); b.Redis.Lpush("limiter", "x") },
		StateError{"limiter", "", "list"}, "Config")

	const value, permits, keep = "{limiter}:value", "{limiter}:permits", "SetRate keep"
	for _, text := range []string{"many", "1.5", "1e+17"} { // the last one as Lua prints
		check("value "+text, func(b *fixture) { b.Redis.Set(value, text) }, StateError{value, "", text}, keep)
	}
	check("value is a hash", func(b *fixture) { b.Redis.Del(value); b.Redis.HSet(value, "a", "b") },
		StateError{value, "", "hash"}, keep)
	check("permits is a string", func(b *fixture) { b.Redis.Del(permits); b.Redis.Set(permits, "x") },
		StateError{permits, "", "string"}, keep)
	check("member too short", func(b *fixture) {
		b.Redis.Del(permits)
		b.Redis.ZAdd(permits, 1, "abc")
		b.Redis.ZAdd(permits, float64(time.Now().UnixMilli()), "\x08abcdefgh\x01\x00\x00\x00")
	}, StateError{permits, "member", "abc"}, keep)
}

// TestLimiter_RedisFails_ErrorIsReachable: the error contains the name of the limiter.
func TestLimiter_RedisFails_ErrorIsReachable(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 1, Interval: second})
		b.Redis.SetError("OOM command not allowed when used memory > 'maxmemory'.")
		for name, call := range everyCall(l) {
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

// wholeNumber matches texts that Redis itself accepts as numbers, up to a length that no rate has.
var wholeNumber = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,15}|[1-9][0-9]{16})$`)

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
			require.Fail(t, "an error that a caller cannot distinguish", "%v", err)
		}
	})
}

func FuzzMembers(f *testing.F) {
	f.Add([]byte{}, int64(1))
	f.Add([]byte{1, 2, 3}, int64(100))
	f.Add([]byte{0, 0, 0, 1}, int64(1<<32-1))
	f.Add([]byte("\x08random..\x05\x00\x00\x00"), int64(1<<32))
	f.Add([]byte("\x10random..random..\xff\xff\xff\xff"), int64(1<<53))
	f.Add([]byte("\x00\x00\x80\x3f\x07\x00\x00\x00"), int64(7))
	server, client := fuzzServer(f)
	f.Fuzz(func(t *testing.T, found []byte, permits int64) {
		made := new(Client).member(permits, false)
		require.Equal(t, "\x10", made[:1])
		require.Len(t, made, 1+16+4)
		require.Equal(t, uint32(permits), binary.LittleEndian.Uint32([]byte(made[17:])))
		another := new(Client).member(permits, false)
		require.NotEqual(t, made, another, "two grants never share a member")

		// A member of another release of Redisson, or of another program.
		const rate = 1 << 40
		server.FlushAll()
		now := fuzzEpoch
		l := New(client, WithClock(func() time.Time { return now })).Limiter("m")
		require.NoError(t, l.SetRate(t.Context(), Rate{Permits: rate, Interval: time.Second}))
		_, err := server.ZAdd(l.wire.keys[permitsKey], float64(now.UnixMilli()), string(found))
		require.NoError(t, err)

		// The value is lost, so that only the member has the taken permits.
		if len(found) < 4 {
			want := &StateError{Key: l.wire.keys[permitsKey], Field: "member", Value: string(found)}
			require.Equal(t, want, errOf(l.AvailablePermits(t.Context())))
			require.Equal(t, want, errOf(l.TryAcquire(t.Context(), 1)))
			require.Equal(t, []string{l.wire.keys[configKey], l.wire.keys[permitsKey]}, server.Keys(), "nothing was written")
		} else {
			taken := int64(binary.LittleEndian.Uint32(found[len(found)-4:]))
			free, err := l.AvailablePermits(t.Context())
			require.NoError(t, err)
			require.Equal(t, rate-taken, free)
			decision, err := l.Take(t.Context(), 1)
			require.NoError(t, err)
			want := Decision{Allowed: true, Limit: rate, Remaining: rate - taken - 1, ResetAfter: time.Second}
			require.Equal(t, want, decision)
		}
		now = now.Add(time.Second)
		free, err := l.AvailablePermits(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, rate, free, "whatever it was, it has left the window")
		granted, err := l.TryAcquire(t.Context(), engine.MaxPermits)
		require.NoError(t, err)
		require.True(t, granted)
	})
}
