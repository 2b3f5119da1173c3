package rratelimiter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/memredis"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestStateError_CorruptState_NamesKeyAndField: nothing is granted or changed.
func TestStateError_CorruptState_NamesKeyAndField(t *testing.T) {
	check := func(name string, harm func(f *fixture), want StateError, calls ...string) {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 10, Interval: time.Second})
			f.RequireGranted(l, 2)
			harm(f)
			before := f.Redis.Dump()
			calls = append(calls, "TryAcquire", "Take", "Acquire", "TryAcquireWithin", "TakeWithin", "Release", "Drain",
				"AvailablePermits")
			for _, call := range calls {
				err := everyCall(l)[call](t.Context())
				var got *StateError
				require.ErrorAs(t, err, &got, call)
				assert.Equal(t, want, *got, call)
				assert.Contains(t, err.Error(), strconv.Quote(want.Key))
			}
			assert.Equal(t, before, f.Redis.Dump())
			if want.Value != "list" {
				f.RequireGranted(f.limiter(Rate{Permits: 10, Interval: time.Second}), 10) // SetRate repairs the limiter
			}
		})
	}
	for _, field := range [][2]string{ // more values are inputs of FuzzConfigurations
		{"type", "2"}, {"rate", "9007199254740993"}, {"rate", "09007199254740992"}, {"interval", ""}, {"keepAliveTime", "-1"},
	} {
		check(fmt.Sprintf("%s %q", field[0], field[1]), func(f *fixture) { f.Redis.HSet("limiter", field[0], field[1]) },
			StateError{"limiter", field[0], field[1]}, "Config")
	}
	check("configuration is a list", func(f *fixture) { f.Redis.Del("limiter"); f.Redis.Lpush("limiter", "x") },
		StateError{"limiter", "", "list"}, "Config")

	const value, permits, keep = "{limiter}:value", "{limiter}:permits", "SetRate keep"
	for _, text := range []string{"many", "1.5", "1e+17"} { // the last one as Lua prints
		check("value "+text, func(f *fixture) { f.Redis.Set(value, text) }, StateError{value, "", text}, keep)
	}
	check("value is a hash", func(f *fixture) { f.Redis.Del(value); f.Redis.HSet(value, "a", "b") },
		StateError{value, "", "hash"}, keep)
	check("permits is a string", func(f *fixture) { f.Redis.Del(permits); f.Redis.Set(permits, "x") },
		StateError{permits, "", "string"}, keep)
	check("member too short", func(f *fixture) {
		f.Redis.Del(permits)
		f.Redis.ZAdd(permits, 1, "abc")
		f.Redis.ZAdd(permits, float64(time.Now().UnixMilli()), "\x08abcdefgh\x01\x00\x00\x00")
	}, StateError{permits, "member", "abc"}, keep)
}

// TestLimiter_RedisFails_ErrorIsReachable: the error contains the name of the limiter.
func TestLimiter_RedisFails_ErrorIsReachable(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 1, Interval: time.Second})
		f.Redis.SetError("OOM command not allowed when used memory > 'maxmemory'.")
		for name, call := range everyCall(l) {
			err := call(t.Context())
			var redisErr *rueidis.RedisError
			require.ErrorAs(t, err, &redisErr, name)
			assert.Contains(t, err.Error(), `"limiter"`, name)
		}
	})
}

// TestExplain_ServerHangs_EndsAfterTheTimeout: the types of all keys are read in one call.
func TestExplain_ServerHangs_EndsAfterTheTimeout(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Hour})
		f.Redis.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
			switch command {
			case "EVALSHA":
				peer.WriteError("WRONGTYPE Operation against a key holding the wrong kind of value")
			case "TYPE":
				time.Sleep(time.Minute)
			}
			return command == "EVALSHA"
		})
		start := time.Now()
		assert.Error(t, redistest.Err(l.TryAcquire(context.Background(), 1)))
		assert.Less(t, time.Since(start), 11*time.Second)
		time.Sleep(time.Minute)
	})
}

func TestString_TypesAndErrors_AreReadable(t *testing.T) {
	assert.Equal(t, "OVERALL PER_CLIENT RateType(7)", fmt.Sprint(Overall, PerClient, RateType(7)))
	assert.Equal(t, `rratelimiter: field "rate" of key "api" holds "ten", which is not a limiter's: repair or delete it`,
		(&StateError{Key: "api", Field: "rate", Value: "ten"}).Error())
}

// fuzzEpoch is the time at which the clocks of the fuzzed limiters begin.
var fuzzEpoch = time.UnixMilli(1_700_000_000_000)

// fuzzServer is a Redis in memory and a client of it, for all inputs of one target.
func fuzzServer(f *testing.F) (*miniredis.Miniredis, rueidis.Client) {
	server := miniredis.NewMiniRedis()
	client, err := memredis.Connect(server)
	require.NoError(f, err)
	f.Cleanup(client.Close)
	return server, client
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
	for _, missing := range []byte{1, 2, 4} { // rate, interval, type
		f.Add("10", "1000", "0", "0", 0b1111^missing, "")
	}
	f.Add("0", "0", "0", "0", byte(0b1111), "5")
	f.Add("010", "01000", "01", "05000", byte(0b1111), "5")
	f.Add("9007199254740992", "9223372036854775807", "0", "9223372036854775807", byte(0b1111), "5")
	f.Add("9007199254740993", "9223372036854775808", "0", "999999999999999", byte(0b1111), "5")
	f.Add("1e3", "0x10", "0", "-1", byte(0b1111), "5")
	f.Add(" 10", "10\n", "0\x00", "inf", byte(0b1111), "5")
	f.Add("10.0", "nan", "2", "0", byte(0b1111), "5")
	f.Add("1", "1", "0", "0", byte(0b1111), "10")
	f.Add("10", "1000", "0", "05000", byte(0b1111), "")
	for _, value := range []string{"0", "-0", "007", "-5", "+5", "11", "1e3", "99999999999999999999999",
		"-99999999999999999999999", " 5", "nan"} {
		f.Add("10", "1000", "0", "0", byte(0b1111), value)
	}
	server, client := fuzzServer(f)
	f.Fuzz(func(t *testing.T, rate, interval, rateType, keepAlive string, present byte, value string) {
		server.FlushAll()
		l := New(client, WithClock(func() time.Time { return fuzzEpoch })).Limiter("c")
		defer func() { require.NoError(t, l.protocol.client.Flush(t.Context())) }() // no count goes on beside the next input
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
			require.NoError(t, server.Set(l.protocol.keys[valueKey], value))
			require.NoError(t, server.Set(l.protocol.keys[clientValueKey], value))
			_, err := server.ZAdd(l.protocol.keys[permitsKey], float64(fuzzEpoch.UnixMilli()), "\x00\x01\x00\x00\x00")
			require.NoError(t, err)
			_, err = server.ZAdd(l.protocol.keys[clientPermitsKey], float64(fuzzEpoch.UnixMilli()), "\x00\x01\x00\x00\x00")
			require.NoError(t, err)
		}
		keysBefore := len(server.Keys())

		config, err := l.Config(t.Context())
		want, key := kind(err), "c"
		if want == "none" && value != "" && !wholeNumber.MatchString(value) {
			want, key = "state", l.protocol.keys[map[RateType]int{Overall: valueKey, PerClient: clientValueKey}[config.Type]]
			texts[""] = value
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
				require.Equal(t, StateError{Key: key, Field: state.Field, Value: texts[state.Field]}, *state)
			}
		}
		switch want {
		case "none":
			require.LessOrEqual(t, free, config.Permits)
			require.GreaterOrEqual(t, free, int64(0))
			// A larger value disagrees with the grant: a count may have corrected it in between.
			if whole, _ := strconv.ParseInt(value, 10, 64); free > 0 && whole < config.Permits {
				require.True(t, granted)
			}
		case "not initialized":
			require.Less(t, len(texts), 4)
		case "state":
			require.False(t, granted)
			require.Len(t, server.Keys(), keysBefore, "nothing was taken")
			require.NoError(t, l.SetRate(t.Context(), Rate{Permits: 10, Interval: time.Second}), "SetRate repairs")
			require.True(t, redistest.Result(t, l.TryAcquire, 10))
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
		defer func() { require.NoError(t, l.protocol.client.Flush(t.Context())) }() // no count goes on beside the next input
		require.NoError(t, l.SetRate(t.Context(), Rate{Permits: rate, Interval: time.Second}))
		_, err := server.ZAdd(l.protocol.keys[permitsKey], float64(now.UnixMilli()), string(found))
		require.NoError(t, err)

		// The value is lost, so that only the member has the taken permits.
		if len(found) < 4 {
			want := &StateError{Key: l.protocol.keys[permitsKey], Field: "member", Value: string(found)}
			require.Equal(t, want, redistest.Err(l.AvailablePermits(t.Context())))
			require.Equal(t, want, redistest.Err(l.TryAcquire(t.Context(), 1)))
			require.Equal(t, []string{l.protocol.keys[configKey], l.protocol.keys[permitsKey]}, server.Keys(),
				"nothing was written")
		} else {
			taken := int64(binary.LittleEndian.Uint32(found[len(found)-4:]))
			require.Equal(t, rate-taken, redistest.Available(t, l))
			decision := redistest.Result(t, l.Take, 1)
			want := Decision{Allowed: true, Limit: rate, Remaining: rate - taken - 1, ResetAfter: time.Second}
			require.Equal(t, want, decision)
		}
		now = now.Add(time.Second)
		require.Equal(t, int64(rate), redistest.Available(t, l), "whatever it was, it has left the window")
		require.True(t, redistest.Result(t, l.TryAcquire, engine.MaxPermits))
	})
}
