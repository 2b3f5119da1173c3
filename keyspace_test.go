package rratelimiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func TestDelete_Keys_AreAllDeleted(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		for _, typ := range []RateType{Overall, PerClient} {
			for _, remove := range []func(*Limiter, context.Context) (bool, error){(*Limiter).Delete, (*Limiter).Unlink} {
				l := f.limiter(Rate{Type: typ, Permits: 2, Interval: time.Second})
				f.RequireTrue(l.Touch(ctx))
				f.RequireGranted(l, 1)
				f.RequireTrue(l.Exists(ctx))

				f.RequireTrue(remove(l, ctx))
				assert.Empty(t, f.Redis.Keys())
				f.RequireFalse(remove(l, ctx))
				f.RequireFalse(l.Touch(ctx))
				f.RequireFalse(l.Exists(ctx))
			}
		}
	})
}

func TestRename_State_IsMoved(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		c := New(f.Conn)
		rate := Rate{Permits: 10, Interval: time.Minute}
		from, to := c.Limiter("from"), c.Limiter("to")
		require.NoError(t, from.SetRate(ctx, rate))
		require.NoError(t, to.SetRate(ctx, Rate{Type: PerClient, Permits: 3, Interval: time.Minute}))
		f.RequireGranted(from, 4)
		f.RequireGranted(to, 3)

		f.RequireFalse(from.RenameNX(ctx, "to"))
		f.RequireAvailable(from, 6)

		require.NoError(t, from.Rename(ctx, "to"))
		assert.Equal(t, []string{"to", "{to}:permits", "{to}:value"}, f.Redis.Keys(), "nothing of the old ones stays")
		f.RequireAvailable(to, 6)
		assert.ErrorIs(t, from.Rename(ctx, "to"), ErrNotInitialized)

		f.RequireTrue(to.RenameNX(ctx, "from"))
		f.RequireAvailable(from, 6)
		require.NoError(t, from.Rename(ctx, "from"))
		f.RequireAvailable(from, 6)
	})
}

// TestCopy_State_IsSeparate: Replace removes the state that the new name had.
func TestCopy_State_IsSeparate(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		ctx, c := t.Context(), New(f.Conn)
		from, to := c.Limiter("from"), c.Limiter("to")
		rate := Rate{Permits: 10, Interval: time.Minute}
		require.NoError(t, from.SetRate(ctx, rate))
		f.RequireGranted(from, 4)
		f.RequireTrue(from.Copy(ctx, "to"))
		f.RequireGranted(to, 6)
		f.RequireAvailable(from, 6)
		f.RequireFalse(from.Copy(ctx, "to"))
		f.RequireAvailable(to, 0)

		require.NoError(t, to.SetRate(ctx, Rate{Permits: 20, Interval: time.Minute}))
		f.RequireGranted(to, 19)
		f.RequireTrue(from.Copy(ctx, "to", Replace()))
		assert.Equal(t, rate, f.configured(to))
		f.RequireAvailable(to, 6)
		f.Redis.Del("{to}:value")
		f.RequireAvailable(to, 6)

		require.NoError(t, from.SetRate(ctx, rate))
		f.RequireTrue(from.Copy(ctx, "to", Replace()))
		f.RequireAvailable(to, 10)
		assert.Equal(t, []string{"from", "to"}, f.Redis.Keys())
	})
}

func TestSizeInMemory_Keys_AreAllCounted(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 1000, Interval: time.Minute})
		empty, err := l.SizeInMemory(t.Context())
		require.NoError(t, err)
		assert.Positive(t, empty)
		f.fill(l, 100, 1)
		full, err := l.SizeInMemory(t.Context())
		require.NoError(t, err)
		assert.Greater(t, full, empty+1000)
	})
}

// TestCopy_StateExpiresEarly_IsExtended: the copied state lasts as long as its configuration.
func TestCopy_StateExpiresEarly_IsExtended(t *testing.T) {
	for _, typ := range []RateType{Overall, PerClient} {
		for _, config := range []time.Duration{0, time.Minute} {
			withRedis(t, func(t *testing.T, f *fixture) {
				l := f.limiter(Rate{Type: typ, Permits: 10, Interval: time.Hour})
				f.RequireGranted(l, 10)
				f.setTTLs(config, time.Second)
				f.RequireTrue(l.Copy(t.Context(), "copy"))
				require.NoError(t, l.Rename(t.Context(), "to"))
				time.Sleep(2 * time.Second)
				f.RequireDenied(l.wire.client.Limiter("copy"), 1)
				f.RequireDenied(l.wire.client.Limiter("to"), 1)
			})
		}
	}
}

// TestRename_NamesOfOneState_IsRefused: Redisson's "x" and "{x}" are two configurations with one
// value and one set.
func TestRename_NamesOfOneState_IsRefused(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		c := New(f.Conn)
		for _, names := range [][2]string{{"x", "{x}"}, {"{x}", "x"}} {
			from := c.Limiter(names[0])
			require.NoError(t, from.SetRate(t.Context(), Rate{Permits: 10, Interval: time.Hour}))
			f.RequireGranted(from, 4)
			before := f.Redis.Dump()
			require.ErrorIs(t, from.Rename(t.Context(), names[1]), ErrInvalidName)
			_, err := from.RenameNX(t.Context(), names[1])
			require.ErrorIs(t, err, ErrInvalidName)
			_, err = from.Copy(t.Context(), names[1], Replace())
			require.ErrorIs(t, err, ErrInvalidName)
			assert.Equal(t, before, f.Redis.Dump())
			require.NoError(t, from.Rename(t.Context(), names[0]), "its own name")
			f.RequireAvailable(from, 6)
			f.RequireNoError(from.Delete(t.Context()))
		}
	})
}

// TestRename_CommandIsNotPermitted_ChangesNothing: the value of the new name may be lost, and is
// counted again.
func TestRename_CommandIsNotPermitted_ChangesNothing(t *testing.T) {
	for _, command := range []string{"PTTL", "HMGET", "UNLINK", "EXISTS", "RENAME"} {
		withRedis(t, func(t *testing.T, f *fixture) {
			ctx, c := t.Context(), New(f.Conn)
			from, to := c.Limiter("from"), c.Limiter("to")
			for _, l := range []*Limiter{from, to} {
				require.NoError(t, l.SetRate(ctx, Rate{Permits: 10, Interval: time.Minute}))
			}
			f.RequireGranted(from, 4)
			f.RequireGranted(to, 9)
			f.Reply(command, "", func(peer *server.Peer, _ []string) { peer.WriteError("NOPERM") })
			_, err := from.RenameNX(ctx, "new")
			require.Error(t, err, command)
			if command != "EXISTS" { // which looks whether there is a limiter of the new name
				require.Error(t, from.Rename(ctx, "to"), command)
			}
			f.Reply("", "none", nil)
			f.RequireAvailable(from, 6)
			f.RequireAvailable(to, 1)
		})
	}
}

// TestCopy_ServerLacksTheCommand_IsUnsupported: errors of Redis 6.0, 6.2 and 7.0, for Expire as
// well.
func TestCopy_ServerLacksTheCommand_IsUnsupported(t *testing.T) {
	ctx := context.Background()
	inASecond := func(l *Limiter, when ...ExpireOption) error {
		return redistest.Err(l.Expire(ctx, time.Second, when...))
	}
	for _, test := range []struct {
		command, text string
		call          func(l *Limiter) error
		want          []string // in the error, with ErrUnsupported; nil if that is not the reason
	}{
		{"COPY", "ERR unknown command 'COPY'",
			func(l *Limiter) error { return redistest.Err(l.Copy(ctx, "copy", Replace())) }, []string{"Copy", `"limiter"`,
				"6.2"}},
		{"COPY", "NOPERM this user has no permissions to run the 'copy' command",
			func(l *Limiter) error { return redistest.Err(l.Copy(ctx, "copy")) }, nil},
		{"PEXPIRE", "@user_script: 12: Wrong number of args calling Redis command From Lua script",
			func(l *Limiter) error { return inASecond(l, IfSet) }, []string{"Expire", `"limiter"`, "7.0"}},
		{"PEXPIREAT", "ERR Wrong number of args calling Redis command from script",
			func(l *Limiter) error { return redistest.Err(l.ExpireAt(ctx, time.Now().Add(time.Second), IfNotSet)) },
			[]string{"ExpireAt", `"limiter"`, "7.0"}},
		{"PEXPIRE", "ERR Wrong number of args calling Redis command from script",
			func(l *Limiter) error { return inASecond(l) }, nil},
		{"PEXPIRE", "NOPERM this user has no permissions",
			func(l *Limiter) error { return inASecond(l, IfSet) }, nil},
	} {
		withRedis(t, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Permits: 10, Interval: time.Second})
			f.RequireGranted(l, 4)
			other := l.wire.client.Limiter("copy")
			if test.command == "COPY" && test.want != nil {
				require.NoError(t, other.SetRate(t.Context(), Rate{Permits: 3, Interval: time.Second}))
				f.RequireGranted(other, 3)
			}
			before := f.Redis.Dump()
			f.Reply(test.command, "", func(peer *server.Peer, _ []string) { peer.WriteError(test.text) })
			err := test.call(l)
			var redisErr *rueidis.RedisError
			if test.want == nil {
				require.ErrorAs(t, err, &redisErr, test.text)
				require.False(t, errors.Is(err, ErrUnsupported), test.text)
			} else {
				require.ErrorIs(t, err, ErrUnsupported, test.text)
				for _, word := range test.want {
					require.ErrorContains(t, err, word)
				}
			}
			require.Equal(t, before, f.Redis.Dump(), "nothing was changed")
		})
	}
}

// TestExpireTime_OldServer_IsComputed: Redis has PEXPIRETIME since 7.0.
func TestExpireTime_OldServer_IsComputed(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Second})
		time.Sleep(1234 * time.Millisecond)
		unknown := f.Reply("PEXPIRETIME", "", func(peer *server.Peer, _ []string) { peer.WriteError("ERR unknown command") })
		at, err := l.ExpireTime(t.Context())
		require.NoError(t, err)
		assert.True(t, at.IsZero())
		f.RequireNoError(l.Expire(t.Context(), time.Minute))
		at, err = l.ExpireTime(t.Context())
		require.NoError(t, err)
		assert.Equal(t, time.Now().Add(time.Minute).UnixMilli(), at.UnixMilli())
		assert.Equal(t, 2, *unknown)
	})
}

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
	withRedis(t, func(t *testing.T, f *fixture) {
		for _, typ := range []RateType{Overall, PerClient} {
			for _, config := range []time.Duration{0, time.Hour, last} {
				for _, state := range []time.Duration{0, 10 * time.Millisecond, time.Minute} {
					for name := range uses(nil, nil, Rate{}) {
						f.Redis.FlushDB()
						rate := Rate{Type: typ, Permits: 10, Interval: time.Minute}
						l := f.limiter(rate)
						f.RequireGranted(l, 2)
						synctest.Wait() // drift has been counted
						f.setTTLs(config, state)
						want := outlasting(config, rate)
						if config == last { // PTTL returns 0 in it, and an expiry of 0 would delete the state
							f.Reply("PTTL", "limiter", func(peer *server.Peer, _ []string) { peer.WriteInt(0) })
							want -= last
						}
						uses(f, l, rate)[name]()
						f.requireTTLs(config, want, fmt.Sprintf("%v, %s, TTLs of %v and %v", typ, name, config, state))
						f.Reply("none", "", nil)
					}
				}
			}
		}
	})
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
