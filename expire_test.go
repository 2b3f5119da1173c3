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

// TestExpire_LastMillisecond_StateStays: the TTL of the configuration is 0 then, and the
// configuration exists. An expiry of 0 would delete the state.
func TestExpire_LastMillisecond_StateStays(t *testing.T) {
	for _, typ := range []RateType{Overall, PerClient} {
		t.Run(typ.String(), func(t *testing.T) {
			for name, call := range map[string]func(b *fixture, l *Limiter){
				"TryAcquire":        func(b *fixture, l *Limiter) { b.Full(l, 1) },
				"Release":           func(b *fixture, l *Limiter) { require.NoError(b, l.Release(b.Context(), 1)) },
				"SetRate KeepState": func(b *fixture, l *Limiter) { require.NoError(b, everyCall(l)["SetRate keep"](b.Context())) },
			} {
				t.Run(name, func(t *testing.T) {
					withRedis(t, func(b *fixture) {
						l := b.limiter(Rate{Type: typ, Permits: 10, Interval: second})
						b.Take(l, 4)
						b.Take(l, 6)
						b.must(l.Expire(b.Context(), second))
						asked := b.Reply("PTTL", "limiter", func(peer *server.Peer, _ []string) { peer.WriteInt(0) })
						if name == "SetRate KeepState" {
							require.NoError(b, l.SetRate(b.Context(), Rate{Type: typ, Permits: 10, Interval: second}, KeepState()))
						} else {
							call(b, l)
						}
						assert.Equal(b, 1, *asked)
						least := time.Millisecond
						if typ == PerClient {
							least += second + 24*time.Hour
						}
						for key, ttl := range b.ttls() {
							if key != "limiter" {
								assert.Equal(b, least, ttl, key)
							}
						}
						assert.Len(b, b.Redis.Keys(), 3)
					})
				})
			}
		})
	}
}

// TestPerClient_AnotherClientLengthensTheInterval_GrantsCount: grants of this client count in the
// longer interval, even if they had expired in the shorter one.
func TestPerClient_AnotherClientLengthensTheInterval_GrantsCount(t *testing.T) {
	for name, lasts := range map[string]struct{ first, later Rate }{
		"for ever":          {Rate{Interval: second}, Rate{Interval: 2 * time.Hour}},
		"with a keep-alive": {Rate{Interval: second, KeepAlive: 2 * second}, Rate{Interval: time.Hour, KeepAlive: time.Hour}},
		"that gets one":     {Rate{Interval: second}, Rate{Interval: time.Hour, KeepAlive: 2 * time.Hour}},
		"that loses it":     {Rate{Interval: second, KeepAlive: 2 * second}, Rate{Interval: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			withRedis(t, func(b *fixture) {
				lasts.first.Type, lasts.first.Permits = PerClient, 10
				lasts.later.Type, lasts.later.Permits = PerClient, 10
				l := b.limiter(lasts.first)
				b.Take(l, 10)
				other := New(b.Conn).Limiter("limiter")
				require.NoError(b, other.SetRate(b.Context(), lasts.later, KeepState()))
				pass(time.Minute)
				b.Full(l, 1)
				b.Free(l, 0)
				pass(lasts.later.Interval - time.Minute - time.Millisecond)
				b.Full(l, 1)
				pass(time.Millisecond)
				b.Take(l, 10)
			})
		})
	}
}

// TestPerClient_AnotherClientExtendsTheTTL_GrantsCount: the other client cannot name this client's
// state keys.
func TestPerClient_AnotherClientExtendsTheTTL_GrantsCount(t *testing.T) {
	for name, prolong := range map[string]func(b *fixture, other *Limiter) error{
		"Expire":      func(b *fixture, other *Limiter) error { _, err := other.Expire(b.Context(), time.Hour); return err },
		"ClearExpire": func(b *fixture, other *Limiter) error { _, err := other.ClearExpire(b.Context()); return err },
		"keep-alive": func(b *fixture, other *Limiter) error {
			return other.SetRate(b.Context(), Rate{Type: PerClient, Permits: 10, Interval: time.Minute, KeepAlive: time.Hour})
		},
	} {
		t.Run(name, func(t *testing.T) {
			withRedis(t, func(b *fixture) {
				l := b.limiter(Rate{Type: PerClient, Permits: 10, Interval: time.Minute})
				b.must(l.Expire(b.Context(), second))
				b.Take(l, 10)
				require.NoError(b, prolong(b, New(b.Conn).Limiter("limiter")))
				pass(time.Minute - time.Millisecond)
				b.Full(l, 1)
				pass(time.Millisecond)
				b.Take(l, 10)
			})
		})
	}
}

// TestExpire_State_OutlastsTheConfiguration: by a millisecond, and the state of one client by an
// interval and a day besides.
func TestExpire_State_OutlastsTheConfiguration(t *testing.T) {
	const day = 24 * time.Hour
	withRedis(t, func(b *fixture) {
		ctx := b.Context()
		check := func(config time.Duration, perClient bool) {
			b.Helper()
			want := map[string]time.Duration{"limiter": config}
			switch {
			case !perClient:
				want["value"], want["permits"] = config, config
				if config > 0 {
					want["value"], want["permits"] = config+time.Millisecond, config+time.Millisecond
				}
			case config == 0:
				want["own value"], want["own permits"] = 0, 0
			default:
				want["own value"], want["own permits"] = config+time.Millisecond+second+day, config+time.Millisecond+second+day
			}
			require.Equal(b, want, b.ttls())
		}
		for _, typ := range []RateType{Overall, PerClient} {
			own := typ == PerClient
			b.Redis.FlushAll()
			rate := Rate{Type: typ, Permits: 10, Interval: second}
			l := b.limiter(rate)
			use := []func(){
				func() { b.Take(l, 2) },
				func() { b.Full(l, 10) },
				func() { require.NoError(b, l.Release(ctx, 1)) },
				func() { require.NoError(b, l.SetRate(ctx, rate, KeepState())) },
			}
			every := func(config time.Duration) {
				b.Helper()
				for _, call := range use {
					b.Take(l, 1)
					check(config, own)
					// A TTL of an earlier configuration, or of another program.
					for _, key := range b.Redis.Keys()[1:] {
						b.Redis.SetTTL(key, 10*time.Millisecond)
					}
					call()
					for key, ttl := range b.ttls() {
						if config == 0 && strings.HasSuffix(key, "value") {
							continue // a denial writes none, and one that expires is counted again
						}
						assert.True(b, key == "limiter" || ttl == 0 || ttl > config && config > 0, "%s lives %v, the configuration %v",
							key, ttl, config)
					}
					require.NoError(b, l.Release(ctx, 10))
				}
				b.Take(l, 1)
				check(config, own)
			}
			every(0)
			b.yes(l.Expire(ctx, time.Minute))
			check(time.Minute, own)
			every(time.Minute)
			b.yes(l.ExpireAt(ctx, time.Now().Add(time.Hour)))
			check(time.Hour, own)
			every(time.Hour)
			b.yes(l.ClearExpire(ctx))
			check(0, own)

			rate.KeepAlive = time.Minute
			require.NoError(b, l.SetRate(ctx, rate, KeepState()))
			check(time.Minute, own)
			every(time.Minute)
			rate.KeepAlive = 0
			require.NoError(b, l.SetRate(ctx, rate, KeepState()))
			check(0, own)
		}
	})
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
			decision := b.decision(l, 10)
			assert.Equal(b, Decision{Limit: 10, Remaining: 1, RetryAfter: longest, ResetAfter: longest}, decision)

			// Java may leave this: 64 bits of milliseconds.
			b.Redis.HSet("limiter", "interval", "9223372036854775807")
			b.Full(l, 10)
			decision = b.decision(l, 10)
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

// TestExpire_TTLOfTheStateAlone_IsRemoved: if the configuration has no TTL, the next call removes
// one that the state has. Java reads a value that has expired as a whole rate.
func TestExpire_TTLOfTheStateAlone_IsRemoved(t *testing.T) {
	const value, permits = "{limiter}:value", "{limiter}:permits"
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
		for name, call := range map[string]func(){
			"a grant":  func() { b.Take(l, 1) },
			"a denial": func() { b.Full(l, 10) },
		} {
			b.Take(l, 1)
			b.Redis.SetTTL(value, time.Minute)
			b.Redis.SetTTL(permits, time.Minute)
			call()
			assert.Zero(b, b.Redis.TTL(value), name)
			assert.Zero(b, b.Redis.TTL(permits), name)
		}
		// Only the value exists.
		b.Redis.Del(permits)
		b.Redis.SetTTL(value, time.Minute)
		b.Take(l, 10)
		assert.Zero(b, b.Redis.TTL(value))
		assert.Zero(b, b.Redis.TTL(permits))
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

// TestExpire_TTLOfTheConfigurationAlone_IsCopiedToTheState: Redisson leaves such a limiter when it
// renames one with a TTL to a name with state.
func TestExpire_TTLOfTheConfigurationAlone_IsCopiedToTheState(t *testing.T) {
	for kind, life := range map[RateType]time.Duration{
		Overall: time.Hour + time.Millisecond, PerClient: 25*time.Hour + time.Minute + time.Millisecond,
	} {
		withRedis(t, func(b *fixture) {
			l := b.limiter(Rate{Type: kind, Permits: 10, Interval: time.Minute})
			for name, call := range map[string]func(){
				"a grant":  func() { b.Take(l, 1) },
				"a denial": func() { b.Full(l, 10) },
			} {
				b.Take(l, 1)
				b.Redis.SetTTL("limiter", time.Hour)
				call()
				for _, key := range l.wire.keys {
					if key != "limiter" && b.Redis.Exists(key) {
						assert.Equal(b, life, b.Redis.TTL(key), "%v, %s: %s", kind, name, key)
					}
				}
				require.NoError(b, l.SetRate(b.Context(), Rate{Type: kind, Permits: 10, Interval: time.Minute}))
				b.must(l.ClearExpire(b.Context()))
			}
		})
	}
}
