package rratelimiter

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
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

// TestKeepState_CorruptState_IsAStateError: the rate is not set, and nothing is changed.
func TestKeepState_CorruptState_IsAStateError(t *testing.T) {
	for name, corrupt := range map[string]func(*fixture) *StateError{
		"value": func(b *fixture) *StateError {
			require.NoError(b, b.Redis.Set("{limiter}:value", "ten"))
			return &StateError{Key: "{limiter}:value", Value: "ten"}
		},
		"member": func(b *fixture) *StateError {
			b.must(b.Redis.ZAdd("{limiter}:permits", 2e12, "abc"))
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
