package rratelimiter

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// uses are the calls that set the TTL of the state. At least 2 permits are taken, and 1 is free.
func uses(b *fixture, l *Limiter, rate Rate) map[string]func() {
	return map[string]func(){
		"a grant":           func() { b.Take(l, 1) },
		"a denial":          func() { b.Full(l, 10) },
		"Release":           func() { require.NoError(b, l.Release(b.Context(), 1)) },
		"SetRate KeepState": func() { require.NoError(b, l.SetRate(b.Context(), rate, KeepState())) },
	}
}

// outlasts returns how much longer the state lasts than the configuration.
func outlasts(rate Rate) time.Duration {
	if rate.Type == PerClient {
		return time.Millisecond + rate.Interval + 24*time.Hour
	}
	return time.Millisecond
}

// TestExpire_LastMillisecond_StateStays: the TTL of the configuration is 0 then, and the
// configuration exists. An expiry of 0 would delete the state.
func TestExpire_LastMillisecond_StateStays(t *testing.T) {
	for _, typ := range []RateType{Overall, PerClient} {
		for name := range uses(nil, nil, Rate{}) {
			runWithRedis(t, fmt.Sprint(typ, " ", name), func(b *fixture) {
				rate := Rate{Type: typ, Permits: 10, Interval: second}
				l := b.limiter(rate)
				b.Take(l, 4)
				b.Take(l, 5)
				b.must(l.Expire(b.Context(), second))
				asked := b.Reply("PTTL", "limiter", func(peer *server.Peer, _ []string) { peer.WriteInt(0) })
				uses(b, l, rate)[name]()
				assert.Equal(b, 1, *asked)
				for key, ttl := range b.ttls() {
					if key != "limiter" {
						assert.Equal(b, outlasts(rate), ttl, key)
					}
				}
				assert.Len(b, b.Redis.Keys(), 3)
			})
		}
	}
}

// TestExpire_State_OutlastsTheConfiguration: by a millisecond, and the state of one client by an
// interval and a day besides.
func TestExpire_State_OutlastsTheConfiguration(t *testing.T) {
	for _, typ := range []RateType{Overall, PerClient} {
		withRedis(t, func(b *fixture) {
			ctx, rate := b.Context(), Rate{Type: typ, Permits: 10, Interval: second}
			l := b.limiter(rate)
			check := func(config time.Duration) {
				b.Helper()
				state := config
				if config > 0 {
					state += outlasts(rate)
				}
				want := map[string]time.Duration{"limiter": config, "value": state, "permits": state}
				if typ == PerClient {
					want = map[string]time.Duration{"limiter": config, "own value": state, "own permits": state}
				}
				require.Equal(b, want, b.ttls())
			}
			every := func(config time.Duration) {
				b.Helper()
				for _, call := range uses(b, l, rate) {
					b.Take(l, 2)
					call()
					check(config)
					require.NoError(b, l.Release(ctx, 10))
				}
				b.Take(l, 2)
			}
			every(0)
			b.yes(l.Expire(ctx, time.Minute))
			check(time.Minute)
			every(time.Minute)
			b.yes(l.ExpireAt(ctx, time.Now().Add(time.Hour)))
			check(time.Hour)
			every(time.Hour)
			b.yes(l.ClearExpire(ctx))
			check(0)

			rate.KeepAlive = time.Minute
			require.NoError(b, l.SetRate(ctx, rate, KeepState()))
			check(time.Minute)
			every(time.Minute)
			rate.KeepAlive = 0
			require.NoError(b, l.SetRate(ctx, rate, KeepState()))
			check(0)
		})
	}
}

// TestExpire_TTLsDiffer_StateFollowsTheConfiguration: Redisson leaves such a limiter when it
// renames one with a TTL to a name with state, or sets a TTL on the value alone.
func TestExpire_TTLsDiffer_StateFollowsTheConfiguration(t *testing.T) {
	for _, typ := range []RateType{Overall, PerClient} {
		for _, config := range []time.Duration{0, time.Hour} {
			for _, state := range []time.Duration{0, 10 * time.Millisecond, time.Minute} {
				withRedis(t, func(b *fixture) {
					rate := Rate{Type: typ, Permits: 10, Interval: time.Minute}
					l := b.limiter(rate)
					calls := uses(b, l, rate)
					calls["a grant, and the set is lost"] = func() {
						b.Redis.Del(l.wire.keys[permitsKey])
						b.Redis.Del(l.wire.keys[clientPermitsKey])
						b.Take(l, 1)
					}
					for name, call := range calls {
						b.Redis.FlushAll()
						require.NoError(b, l.SetRate(b.Context(), rate))
						b.Take(l, 2)
						for _, key := range b.Redis.Keys() {
							ttl := state
							if key == "limiter" {
								ttl = config
							}
							if ttl > 0 {
								b.Redis.SetTTL(key, ttl)
							}
						}
						call()
						for key, ttl := range b.ttls() {
							want := config
							if key != "limiter" && config > 0 {
								want += outlasts(rate)
							}
							assert.Equal(b, want, ttl, "%v, %s, TTLs of %v and %v: %s", typ, name, config, state, key)
						}
					}
				})
			}
		}
	}
}

// TestExpire_Conditions_AreCheckedForEachKey: state that would expire before the configuration gets
// a longer TTL.
func TestExpire_Conditions_AreCheckedForEachKey(t *testing.T) {
	withRedis(t, func(b *fixture) {
		ctx := b.Context()
		for _, typ := range []RateType{Overall, PerClient} {
			slack := time.Millisecond
			if typ == PerClient {
				slack += second + 24*time.Hour
			}
			l := b.limiter(Rate{Type: typ, Permits: 10, Interval: second})
			for _, step := range []struct {
				config, state time.Duration // before, 0 for none
				expiry        time.Duration
				when          ExpireOption
				changed       bool
				after         time.Duration // of the configuration
				stateAfter    time.Duration // without slack
			}{
				{0, 0, time.Minute, IfNotSet, true, time.Minute, time.Minute},
				{time.Hour, time.Hour, time.Minute, IfNotSet, false, time.Hour, time.Hour},
				{time.Hour, time.Hour, time.Minute, IfSet, true, time.Minute, time.Minute},
				{time.Hour, time.Hour, time.Minute, IfGreater, false, time.Hour, time.Hour},
				{time.Hour, time.Hour, 2 * time.Hour, IfLess, false, time.Hour, time.Hour},
				{time.Hour, time.Hour, 2 * time.Hour, IfGreater, true, 2 * time.Hour, 2 * time.Hour},
				{time.Hour, time.Hour, time.Minute, IfLess, true, time.Minute, time.Minute},
				// The keys differ, as another program left them.
				{0, time.Hour, time.Minute, IfSet, true, 0, 0},
				{0, time.Hour, 2 * time.Hour, IfGreater, true, 0, 0},
				{time.Hour, 0, time.Minute, IfNotSet, true, time.Hour, time.Hour},
				{time.Hour, 2 * time.Hour, 90 * time.Minute, IfLess, true, time.Hour, 90 * time.Minute},
				{time.Hour, time.Minute, 2 * time.Minute, IfGreater, true, time.Hour, time.Hour},
			} {
				about := fmt.Sprintf("%v %+v", typ, step)
				b.Redis.FlushAll()
				require.NoError(b, l.SetRate(ctx, Rate{Type: typ, Permits: 10, Interval: second}))
				b.Take(l, 1)
				for _, key := range b.Redis.Keys() {
					ttl := step.state + slack
					if step.state == 0 {
						ttl = 0
					}
					if key == "limiter" {
						ttl = step.config
					}
					if ttl > 0 {
						b.Redis.SetTTL(key, ttl)
					}
				}
				changed, err := l.Expire(ctx, step.expiry, step.when)
				require.NoError(b, err)
				odd := step.config != step.state && (step.when == IfGreater || step.when == IfLess)
				require.Equal(b, step.changed && (!odd || typ != PerClient), changed, about)
				for key, ttl := range b.ttls() {
					want := step.stateAfter + slack
					switch {
					case key == "limiter":
						want = step.after
					case step.stateAfter == 0:
						want = 0
					}
					require.Equal(b, want, ttl, "%s: %s", about, key)
				}
			}
			for _, past := range []time.Duration{0, -second} {
				b.Take(l, 1)
				b.must(l.Expire(ctx, past))
				require.Empty(b, b.Redis.Keys())
				require.NoError(b, l.SetRate(ctx, Rate{Type: typ, Permits: 10, Interval: second}))
			}
			b.Take(l, 1)
			b.must(l.ExpireAt(ctx, time.Now().Add(-second)))
			require.Empty(b, b.Redis.Keys())
		}
	})
}

// TestExpire_LongestDurations_DoNotOverflow: no sum of TTLs is negative, and no number loses
// digits.
func TestExpire_LongestDurations_DoNotOverflow(t *testing.T) {
	withRedis(t, func(b *fixture) {
		ctx := b.Context()
		// This server adds TTLs as Durations: three of them must not overflow.
		const longest = time.Duration(math.MaxInt64) / 3 / time.Millisecond * time.Millisecond
		for _, typ := range []RateType{Overall, PerClient} {
			l := b.limiter(Rate{Type: typ, Permits: 10, Interval: longest, KeepAlive: longest})
			b.Take(l, 10)
			b.Full(l, 1)
			require.NoError(b, l.Release(ctx, 1))
			require.NoError(b, l.SetRate(ctx, Rate{Type: typ, Permits: 10, Interval: longest}, KeepState()))
			b.Free(l, 1)
			assert.Equal(b, Decision{Limit: 10, Remaining: 1, RetryAfter: longest, ResetAfter: longest}, b.decision(l, 10))

			// Java may leave this: 64 bits of milliseconds.
			b.Redis.HSet("limiter", "interval", "9223372036854775807")
			b.Full(l, 10)
			decision := b.decision(l, 10)
			assert.Equal(b, time.Duration(math.MaxInt64).Truncate(time.Millisecond), decision.RetryAfter)
			b.must(l.Expire(ctx, time.Hour))
			b.Full(l, 10)
			for key, ttl := range b.ttls() {
				assert.GreaterOrEqual(b, ttl, time.Hour, key)
			}

			// The time is so far ahead that numbers of Lua are not exact: the state has no TTL
			// then.
			far := "8000000000000000000"
			b.Reply("PTTL", "limiter", func(peer *server.Peer, _ []string) { peer.WriteInt(8000000000000000000) })
			b.Full(l, 10)
			for key, ttl := range b.ttls() {
				if strings.Contains(key, "permits") {
					assert.Zero(b, ttl, "%s, which the configuration keeps for %s ms", key, far)
				}
			}
			b.Reply("", "", nil)
			b.Redis.FlushAll()
		}
	})
}

func TestExpire_StateInItsLastMillisecond_IsExtended(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: second})
		b.Take(l, 10)
		for _, key := range b.Redis.Keys() {
			b.Redis.SetTTL(key, time.Minute)
		}
		b.Redis.SetTTL("{limiter}:permits", time.Millisecond)
		b.Reply("PTTL", "{limiter}:permits", func(peer *server.Peer, _ []string) { peer.WriteInt(0) })
		b.must(l.Expire(b.Context(), time.Hour, IfNotSet))
		assert.Equal(b, time.Minute+time.Millisecond, b.Redis.TTL("{limiter}:permits"))
	})
}

// TestExpire_ValueExpiresBeforeItsSet_GrantsCount: Redisson leaves a TTL on the value alone.
func TestExpire_ValueExpiresBeforeItsSet_GrantsCount(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
		b.Take(l, 4)
		b.Redis.SetTTL("{limiter}:value", time.Minute)
		b.Take(l, 3)
		pass(2 * time.Minute)
		b.Full(l, 4)
		b.Take(l, 3)
		b.Full(l, 1)
	})
}
