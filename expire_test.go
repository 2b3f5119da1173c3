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
func uses(f *fixture, l *Limiter, rate Rate) map[string]func() {
	return map[string]func(){
		"a grant":           func() { f.RequireGranted(l, 1) },
		"a denial":          func() { f.RequireDenied(l, 10) },
		"Release":           func() { require.NoError(f, l.Release(f.Context(), 1)) },
		"SetRate KeepState": func() { require.NoError(f, l.SetRate(f.Context(), rate, KeepState())) },
		"a grant, and the set is lost": func() {
			f.Redis.Del(l.wire.keys[permitsKey])
			f.Redis.Del(l.wire.keys[clientPermitsKey])
			f.RequireGranted(l, 1)
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
func (f *fixture) setTTLs(config, state time.Duration) {
	for _, key := range f.Redis.Keys() {
		ttl := state
		if key == "limiter" {
			ttl = config
		}
		if ttl > 0 {
			f.Redis.SetTTL(key, ttl)
		}
	}
}

// requireTTLs requires the TTLs of the configuration and of the state, which exists.
func (f *fixture) requireTTLs(config, state time.Duration, about string) {
	f.Helper()
	require.Len(f, f.ttls(), 3, about)
	for key, ttl := range f.ttls() {
		want := state
		if key == "limiter" {
			want = config
		}
		require.Equal(f, want, ttl, "%s: %s", about, key)
	}
}

// TestExpire_State_OutlastsTheConfiguration: by a millisecond, and the state of one client by an
// interval and a day besides.
func TestExpire_State_OutlastsTheConfiguration(t *testing.T) {
	for _, typ := range []RateType{Overall, PerClient} {
		withRedis(t, func(t *testing.T, f *fixture) {
			ctx, rate := t.Context(), Rate{Type: typ, Permits: 10, Interval: time.Second}
			l := f.limiter(rate)
			f.RequireGranted(l, 2)
			left := func(want time.Duration) {
				t.Helper()
				got, err := l.RemainTimeToLive(ctx)
				require.NoError(t, err)
				assert.Equal(t, want, got)
				at, err := l.ExpireTime(ctx)
				require.NoError(t, err)
				if want < 0 {
					assert.True(t, at.IsZero())
				} else {
					assert.Equal(t, time.Now().Add(want).UnixMilli(), at.UnixMilli())
				}
			}
			expires := func(config time.Duration) {
				t.Helper()
				f.requireTTLs(config, outlasting(config, rate), "")
				left(cmp.Or(config, NeverExpires))
			}
			expires(0)
			f.RequireFalse(l.ClearExpire(ctx))
			f.RequireTrue(l.Expire(ctx, time.Minute))
			expires(time.Minute)
			require.NoError(t, l.SetRate(ctx, rate))
			f.RequireGranted(l, 2) // the state that is made later shares the TTL
			expires(time.Minute)
			f.RequireTrue(l.Expire(ctx, time.Hour, IfSet, IfGreater))
			expires(time.Hour)
			f.RequireTrue(l.ExpireAt(ctx, time.Now().Add(time.Minute+time.Millisecond), IfLess))
			expires(time.Minute + time.Millisecond)
			f.RequireTrue(l.ClearExpire(ctx))
			expires(0)

			rate.KeepAlive = time.Minute
			require.NoError(t, l.SetRate(ctx, rate, KeepState()))
			expires(time.Minute)
			for _, call := range uses(f, l, rate) {
				require.NoError(t, l.Release(ctx, 10))
				f.RequireGranted(l, 2)
				f.setTTLs(time.Second, time.Second)
				call()
				expires(time.Minute)
			}
			rate.KeepAlive = 0
			require.NoError(t, l.SetRate(ctx, rate, KeepState()))
			expires(0)
			f.RequireTrue(l.Expire(ctx, time.Millisecond/2)) // is a millisecond, not at once
			expires(time.Millisecond)
			f.RequireTrue(l.Expire(ctx, 0))
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
					withRedis(t, func(t *testing.T, f *fixture) {
						rate := Rate{Type: typ, Permits: 10, Interval: time.Minute}
						l := f.limiter(rate)
						f.RequireGranted(l, 2)
						f.setTTLs(config, state)
						want := outlasting(config, rate)
						if config == last { // PTTL returns 0 in it, and an expiry of 0 would delete the state
							f.Reply("PTTL", "limiter", func(peer *server.Peer, _ []string) { peer.WriteInt(0) })
							want -= last
						}
						uses(f, l, rate)[name]()
						f.requireTTLs(config, want, fmt.Sprintf("%v, %s, TTLs of %v and %v", typ, name, config, state))
					})
				}
			}
		}
	}
}

// TestExpire_Conditions_AreCheckedForEachKey: state that would expire before the configuration gets
// a longer TTL.
func TestExpire_Conditions_AreCheckedForEachKey(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		for _, typ := range []RateType{Overall, PerClient} {
			rate := Rate{Type: typ, Permits: 10, Interval: time.Second}
			l := f.limiter(rate)
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
				f.Redis.FlushAll()
				require.NoError(t, l.SetRate(ctx, rate))
				f.RequireGranted(l, 1)
				f.setTTLs(step.config, outlasting(step.state, rate))
				changed, err := l.Expire(ctx, step.expiry, step.when)
				require.NoError(t, err)
				odd := step.config != step.state && (step.when == IfGreater || step.when == IfLess)
				require.Equal(t, step.changed && (!odd || typ != PerClient), changed, about)
				f.requireTTLs(step.after, outlasting(step.stateAfter, rate), about)
			}
			for _, past := range []time.Duration{0, -time.Second} {
				f.RequireGranted(l, 1)
				f.RequireNoError(l.Expire(ctx, past))
				require.Empty(t, f.Redis.Keys())
				require.NoError(t, l.SetRate(ctx, rate))
			}
			f.RequireGranted(l, 1)
			f.RequireNoError(l.ExpireAt(ctx, time.Now().Add(-time.Second)))
			require.Empty(t, f.Redis.Keys())
		}
	})
}

// TestExpire_LongestDurations_DoNotOverflow: no sum of TTLs is negative, and no number loses
// digits.
func TestExpire_LongestDurations_DoNotOverflow(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		// This server adds TTLs as Durations: three of them must not overflow.
		const longest = time.Duration(math.MaxInt64) / 3 / time.Millisecond * time.Millisecond
		for _, typ := range []RateType{Overall, PerClient} {
			l := f.limiter(Rate{Type: typ, Permits: 10, Interval: longest, KeepAlive: longest})
			f.RequireGranted(l, 10)
			f.RequireDenied(l, 1)
			require.NoError(t, l.Release(ctx, 1))
			require.NoError(t, l.SetRate(ctx, Rate{Type: typ, Permits: 10, Interval: longest}, KeepState()))
			f.RequireAvailable(l, 1)
			assert.Equal(t, Decision{Limit: 10, Remaining: 1, RetryAfter: longest, ResetAfter: longest}, f.decision(l, 10))

			// Java may leave this: 64 bits of milliseconds.
			f.Redis.HSet("limiter", "interval", "9223372036854775807")
			f.RequireDenied(l, 10)
			decision := f.decision(l, 10)
			assert.Equal(t, time.Duration(math.MaxInt64).Truncate(time.Millisecond), decision.RetryAfter)
			f.RequireNoError(l.Expire(ctx, time.Hour))
			f.RequireDenied(l, 10)
			for key, ttl := range f.ttls() {
				assert.GreaterOrEqual(t, ttl, time.Hour, key)
			}

			// The time is so far ahead that numbers of Lua are not exact: the state has no TTL
			// then.
			far := "8000000000000000000"
			f.Reply("PTTL", "limiter", func(peer *server.Peer, _ []string) { peer.WriteInt(8000000000000000000) })
			f.RequireDenied(l, 10)
			for key, ttl := range f.ttls() {
				if strings.Contains(key, "permits") {
					assert.Zero(t, ttl, "%s, which the configuration keeps for %s ms", key, far)
				}
			}
			f.Reply("", "", nil)
			f.Redis.FlushAll()
		}
	})
}

func TestExpire_StateInItsLastMillisecond_IsExtended(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Second})
		f.RequireGranted(l, 10)
		for _, key := range f.Redis.Keys() {
			f.Redis.SetTTL(key, time.Minute)
		}
		f.Redis.SetTTL("{limiter}:permits", time.Millisecond)
		f.Reply("PTTL", "{limiter}:permits", func(peer *server.Peer, _ []string) { peer.WriteInt(0) })
		f.RequireNoError(l.Expire(t.Context(), time.Hour, IfNotSet))
		assert.Equal(t, time.Minute+time.Millisecond, f.Redis.TTL("{limiter}:permits"))
	})
}
