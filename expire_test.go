package rratelimiter

import (
	"cmp"
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
		"a grant, and the set is lost": func() {
			b.Redis.Del(l.wire.keys[permitsKey])
			b.Redis.Del(l.wire.keys[clientPermitsKey])
			b.Take(l, 1)
		},
	}
}

// outlasting returns the TTL of the state for a TTL of the configuration; 0 is none.
func outlasting(config time.Duration, rate Rate) time.Duration {
	switch {
	case config == 0:
		return 0
	case rate.Type == PerClient:
		return config + time.Millisecond + rate.Interval + 24*time.Hour
	}
	return config + time.Millisecond
}

// setTTLs sets the TTLs of the configuration and of the state, unless they are 0.
func (b *fixture) setTTLs(config, state time.Duration) {
	for _, key := range b.Redis.Keys() {
		ttl := state
		if key == "limiter" {
			ttl = config
		}
		if ttl > 0 {
			b.Redis.SetTTL(key, ttl)
		}
	}
}

// requireTTLs requires the TTLs of the configuration and of the state, which exists.
func (b *fixture) requireTTLs(config, state time.Duration, about string) {
	b.Helper()
	require.Len(b, b.ttls(), 3, about)
	for key, ttl := range b.ttls() {
		want := state
		if key == "limiter" {
			want = config
		}
		require.Equal(b, want, ttl, "%s: %s", about, key)
	}
}

// TestExpire_State_OutlastsTheConfiguration: by a millisecond, and the state of one client by an
// interval and a day besides.
func TestExpire_State_OutlastsTheConfiguration(t *testing.T) {
	for _, typ := range []RateType{Overall, PerClient} {
		withRedis(t, func(b *fixture) {
			ctx, rate := b.Context(), Rate{Type: typ, Permits: 10, Interval: second}
			l := b.limiter(rate)
			b.Take(l, 2)
			left := func(want time.Duration) {
				b.Helper()
				got, err := l.RemainTimeToLive(ctx)
				require.NoError(b, err)
				assert.Equal(b, want, got)
				at, err := l.ExpireTime(ctx)
				require.NoError(b, err)
				if want < 0 {
					assert.True(b, at.IsZero())
				} else {
					assert.Equal(b, time.Now().Add(want).UnixMilli(), at.UnixMilli())
				}
			}
			expires := func(config time.Duration) {
				b.Helper()
				b.requireTTLs(config, outlasting(config, rate), "")
				left(cmp.Or(config, NeverExpires))
			}
			expires(0)
			b.no(l.ClearExpire(ctx))
			b.yes(l.Expire(ctx, time.Minute))
			expires(time.Minute)
			require.NoError(b, l.SetRate(ctx, rate))
			b.Take(l, 2) // the state that is made later shares the TTL
			expires(time.Minute)
			b.yes(l.Expire(ctx, time.Hour, IfSet, IfGreater))
			expires(time.Hour)
			b.yes(l.ExpireAt(ctx, time.Now().Add(time.Minute+time.Millisecond), IfLess))
			expires(time.Minute + time.Millisecond)
			b.yes(l.ClearExpire(ctx))
			expires(0)

			rate.KeepAlive = time.Minute
			require.NoError(b, l.SetRate(ctx, rate, KeepState()))
			expires(time.Minute)
			for _, call := range uses(b, l, rate) {
				require.NoError(b, l.Release(ctx, 10))
				b.Take(l, 2)
				b.setTTLs(second, second)
				call()
				expires(time.Minute)
			}
			rate.KeepAlive = 0
			require.NoError(b, l.SetRate(ctx, rate, KeepState()))
			expires(0)
			b.yes(l.Expire(ctx, time.Millisecond/2)) // is a millisecond, not at once
			expires(time.Millisecond)
			b.yes(l.Expire(ctx, 0))
			left(DoesNotExist)
		})
	}
}

// TestExpire_TTLsDiffer_StateFollowsTheConfiguration: Redisson leaves such a limiter when it
// renames one with a TTL to a name with state, or sets a TTL on the value alone.
func TestExpire_TTLsDiffer_StateFollowsTheConfiguration(t *testing.T) {
	const last = time.Millisecond
	for _, typ := range []RateType{Overall, PerClient} {
		for _, config := range []time.Duration{0, time.Hour, last} {
			for _, state := range []time.Duration{0, 10 * time.Millisecond, time.Minute} {
				for name := range uses(nil, nil, Rate{}) {
					withRedis(t, func(b *fixture) {
						rate := Rate{Type: typ, Permits: 10, Interval: time.Minute}
						l := b.limiter(rate)
						b.Take(l, 2)
						b.setTTLs(config, state)
						want := outlasting(config, rate)
						if config == last { // PTTL returns 0 in it, and an expiry of 0 would delete the state
							b.Reply("PTTL", "limiter", func(peer *server.Peer, _ []string) { peer.WriteInt(0) })
							want -= last
						}
						uses(b, l, rate)[name]()
						b.requireTTLs(config, want, fmt.Sprintf("%v, %s, TTLs of %v and %v", typ, name, config, state))
					})
				}
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
			rate := Rate{Type: typ, Permits: 10, Interval: second}
			l := b.limiter(rate)
			for _, step := range []struct {
				config, state time.Duration // before, 0 for none
				expiry        time.Duration
				when          ExpireOption
				changed       bool
				after         time.Duration // of the configuration
				stateAfter    time.Duration // without what it outlasts the configuration
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
				require.NoError(b, l.SetRate(ctx, rate))
				b.Take(l, 1)
				b.setTTLs(step.config, outlasting(step.state, rate))
				changed, err := l.Expire(ctx, step.expiry, step.when)
				require.NoError(b, err)
				odd := step.config != step.state && (step.when == IfGreater || step.when == IfLess)
				require.Equal(b, step.changed && (!odd || typ != PerClient), changed, about)
				b.requireTTLs(step.after, outlasting(step.stateAfter, rate), about)
			}
			for _, past := range []time.Duration{0, -second} {
				b.Take(l, 1)
				b.must(l.Expire(ctx, past))
				require.Empty(b, b.Redis.Keys())
				require.NoError(b, l.SetRate(ctx, rate))
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
