package rratelimiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestDelete_Keys_AreAllDeleted: SizeInMemory and Touch see the same keys.
func TestDelete_Keys_AreAllDeleted(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		for _, typ := range []RateType{Overall, PerClient} {
			for _, remove := range []func(*Limiter, context.Context) (bool, error){(*Limiter).Delete, (*Limiter).Unlink} {
				l := f.limiter(Rate{Type: typ, Permits: 2, Interval: time.Second})
				size := func() int64 {
					bytes, err := l.SizeInMemory(ctx)
					require.NoError(t, err)
					return bytes
				}
				empty := size()
				f.RequireTrue(l.Touch(ctx))
				f.RequireGranted(l, 1)
				f.RequireTrue(l.Exists(ctx))
				assert.Greater(t, size(), empty)
				f.RequireTrue(remove(l, ctx))
				assert.Empty(t, f.Redis.Keys())
				assert.Zero(t, size())
				f.RequireFalse(remove(l, ctx))
				f.RequireFalse(l.Touch(ctx))
				f.RequireFalse(l.Exists(ctx))
			}
		}
	})
}

// fromAndTo returns a limiter with 4 of 10 permits taken, and one of another type with all taken. The first one
// expires in a minute, and its set in a second: another program has set that.
func (f *fixture) fromAndTo() (from, to *Limiter) {
	c := New(f.Conn)
	from, to = c.Limiter("from"), c.Limiter("to")
	require.NoError(f, from.SetRate(f.Context(), Rate{Permits: 10, Interval: time.Minute}))
	require.NoError(f, to.SetRate(f.Context(), Rate{Type: PerClient, Permits: 3, Interval: time.Minute}))
	f.RequireGranted(from, 4)
	f.RequireGranted(to, 3)
	f.Redis.SetTTL("from", time.Minute)
	f.Redis.SetTTL("{from}:permits", time.Second)
	return from, to
}

func TestRename_State_IsMoved(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		from, to := f.fromAndTo()
		f.RequireFalse(from.RenameNX(ctx, "to"))
		f.RequireAvailable(from, 6)
		f.refuse("COPY") // which old servers lack
		require.NoError(t, from.Rename(ctx, "to"))
		assert.Equal(t, []string{"to", "{to}:permits", "{to}:value"}, f.Redis.Keys(), "nothing of the old ones stays")
		time.Sleep(2 * time.Second)
		f.RequireAvailable(to, 6)
		assert.ErrorIs(t, from.Rename(ctx, "to"), ErrNotInitialized)
		f.RequireTrue(to.RenameNX(ctx, "from"))
		require.NoError(t, from.Rename(ctx, "from"))
		f.RequireAvailable(from, 6)
	})
}

// TestCopy_State_IsSeparate: Replace removes the state that the new name had.
func TestCopy_State_IsSeparate(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		from, to := f.fromAndTo()
		f.RequireFalse(from.Copy(ctx, "to"))
		f.RequireAvailable(to, 0)
		f.RequireTrue(from.Copy(ctx, "to", Replace()))
		assert.Len(t, f.Redis.Keys(), 6)
		assert.Equal(t, time.Minute+time.Millisecond, f.Redis.TTL("{to}:permits"))
		f.RequireGranted(to, 6)
		f.RequireAvailable(from, 6)
		f.Redis.Del("{to}:value")
		f.RequireAvailable(to, 0)
		f.RequireTrue(from.Copy(ctx, "from", Replace()))
		rate := f.configured(to)
		require.NoError(t, from.SetRate(ctx, rate))
		f.RequireTrue(from.Copy(ctx, "to", Replace()))
		f.RequireTrue(from.Copy(ctx, "new"))
		assert.Equal(t, []string{"from", "new", "to"}, f.Redis.Keys())
		assert.Equal(t, Rate{Permits: 10, Interval: time.Minute}, rate)
	})
}

// TestExpireAt_TimeOutOfRange_IsFarAway: its milliseconds do not fit into 64 bits.
func TestExpireAt_TimeOutOfRange_IsFarAway(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Hour})
		for _, seconds := range []int64{math.MaxInt64 / 1000, math.MaxInt64 / 2, math.MaxInt64 - 62135596801} {
			redistest.Result(t, l.TryAcquire, 1)
			ok, err := l.ExpireAt(t.Context(), time.Unix(seconds, 999_999_999))
			require.NoError(t, err)
			assert.True(t, ok)
			f.RequireTrue(l.Exists(t.Context()))
		}
		f.RequireTrue(l.ExpireAt(t.Context(), time.Unix(math.MinInt64/2, 0)))
		f.RequireFalse(l.Exists(t.Context()))
	})
}

// TestRename_NamesShareAKey_IsRefused: Redisson's "x" and "{x}" are two configurations with one
// value and one set. The value of "x" is the configuration of "{x}:value".
func TestRename_NamesShareAKey_IsRefused(t *testing.T) {
	for _, names := range [][2]string{
		{"x", "{x}"}, {"x", "{x}:value"}, {"{x}:permits", "x"}, {"{x}:value", "{x}:value:value"},
	} {
		withRedis(t, func(t *testing.T, f *fixture) {
			l, to := New(f.Conn).Limiter(names[0]), names[1]
			require.NoError(t, l.SetRate(t.Context(), Rate{Permits: 10, Interval: time.Hour}))
			f.RequireGranted(l, 4)
			before := f.Redis.Dump()
			require.ErrorIs(t, l.Rename(t.Context(), to), ErrInvalidName, names)
			require.ErrorIs(t, redistest.Err(l.RenameNX(t.Context(), to)), ErrInvalidName, names)
			require.ErrorIs(t, redistest.Err(l.Copy(t.Context(), to, Replace())), ErrInvalidName, names)
			assert.Equal(t, before, f.Redis.Dump())
		})
	}
}

// TestRename_CommandIsNotPermitted_ChangesNothing: the value of the new name may be lost, and is
// counted again.
func TestRename_CommandIsNotPermitted_ChangesNothing(t *testing.T) {
	for _, command := range []string{"PTTL", "HMGET", "UNLINK", "EXISTS", "RENAME"} {
		withRedis(t, func(t *testing.T, f *fixture) {
			from, to := f.fromAndTo()
			f.refuse(command)
			require.Error(t, redistest.Err(from.RenameNX(t.Context(), "new")), command)
			require.Error(t, from.Rename(t.Context(), "to"), command)
			f.refuse("")
			f.RequireAvailable(from, 6)
			f.RequireAvailable(to, 0)
		})
	}
}

// TestCopy_ServerLacksTheCommand_IsUnsupported: errors of Redis 6.0, 6.2 and 7.0, for Expire as
// well.
func TestCopy_ServerLacksTheCommand_IsUnsupported(t *testing.T) {
	const (
		copyUnknown = "ERR unknown command 'COPY'"
		wrongNumber = "ERR Wrong number of args calling Redis command from script"
		old         = "@user_script: 12: Wrong number of args calling Redis command From Lua script"
		notAllowed  = "NOPERM this user has no permissions"
		needs62     = `Copy of "from" needs Redis 6.2`
		needs70     = `Expire and ExpireAt of "from" with a condition need Redis 7.0`
	)
	copies := func(l *Limiter) error { return redistest.Err(l.Copy(context.Background(), "to", Replace())) }
	expires := func(when ...ExpireOption) func(l *Limiter) error {
		return func(l *Limiter) error { return redistest.Err(l.Expire(context.Background(), time.Second, when...)) }
	}
	expiresAt := func(l *Limiter) error {
		return redistest.Err(l.ExpireAt(context.Background(), time.Now().Add(time.Second), IfNotSet))
	}
	for _, test := range []struct {
		command, reply string
		call           func(l *Limiter) error
		want           string // the reason; "" for the error of Redis
	}{
		{"COPY", copyUnknown, copies, needs62},
		{"COPY", notAllowed, copies, ""},
		{"PEXPIRE", old, expires(IfSet), needs70},
		{"PEXPIREAT", wrongNumber, expiresAt, needs70},
		{"PEXPIRE", wrongNumber, expires(), ""},
		{"PEXPIRE", notAllowed, expires(IfSet), ""},
	} {
		withRedis(t, func(t *testing.T, f *fixture) {
			from, _ := f.fromAndTo()
			before := f.Redis.Dump()
			f.Reply(test.command, "", func(peer *server.Peer, _ []string) { peer.WriteError(test.reply) })
			err := test.call(from)
			require.Equal(t, test.want != "", errors.Is(err, ErrUnsupported), test.reply)
			require.ErrorContains(t, err, cmp.Or(test.want, strings.TrimPrefix(test.reply, "ERR ")))
			require.Equal(t, before, f.Redis.Dump(), "nothing was changed")
		})
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
// interval and a day besides. Conditions hold for each key. The server of the client is older than 7.0
// and has no PEXPIRETIME.
func TestExpire_State_OutlastsTheConfiguration(t *testing.T) {
	const minute, hour = time.Minute, time.Hour
	for _, typ := range []RateType{Overall, PerClient} {
		withRedis(t, func(t *testing.T, f *fixture) {
			if typ == PerClient {
				f.Reply("PEXPIRETIME", "", func(peer *server.Peer, _ []string) { peer.WriteError("ERR unknown command") })
			}
			time.Sleep(1234 * time.Millisecond)
			ctx, rate := t.Context(), Rate{Type: typ, Permits: 10, Interval: time.Second}
			l := f.limiter(rate)
			expire := func(d time.Duration, when ...ExpireOption) func() (bool, error) {
				return func() (bool, error) { return l.Expire(ctx, d, when...) }
			}
			expireAt := func() (bool, error) { return l.ExpireAt(ctx, time.Now().Add(minute+time.Millisecond), IfLess) }
			clearExpire := func() (bool, error) { return l.ClearExpire(ctx) }
			keepAlive := func(each ...time.Duration) func() (bool, error) {
				return func() (set bool, err error) {
					for _, rate.KeepAlive = range each {
						set, err = l.UpdateRate(ctx, rate, KeepState())
					}
					return set, err
				}
			}
			for i, step := range []struct {
				config, state time.Duration // before, 0 for none
				call          func() (bool, error)
				changed       bool
				after         time.Duration // of the configuration
				stateAfter    time.Duration // without what it outlasts the configuration
			}{
				{0, 0, expire(minute, 0), true, minute, minute},
				{0, 0, expire(time.Millisecond / 2), true, time.Millisecond, time.Millisecond},
				{hour, hour, expireAt, true, minute + time.Millisecond, minute + time.Millisecond},
				{0, 0, clearExpire, false, 0, 0},
				{hour, hour, clearExpire, true, 0, 0},
				{0, hour, clearExpire, true, 0, 0},
				{0, 0, keepAlive(minute), true, minute, minute},
				{0, 0, keepAlive(minute, 0), true, 0, 0},
				{0, 0, expire(minute, IfNotSet), true, minute, minute},
				{hour, hour, expire(minute, IfNotSet), false, hour, hour},
				{minute, minute, expire(hour, IfSet, IfGreater), true, hour, hour},
				{hour, hour, expire(minute, IfGreater), false, hour, hour},
				{hour, hour, expire(2*hour, IfLess), false, hour, hour},
				// The keys differ, as another program left them.
				{0, hour, expire(minute, IfSet), true, 0, 0},
				{hour, 0, expire(minute, IfSet), true, minute, 0},
				{0, hour, expire(2*hour, IfGreater), typ == Overall, 0, 0},
				{hour, 0, expire(minute, IfNotSet), true, hour, hour},
				{hour, 2 * hour, expire(90*minute, IfLess), typ == Overall, hour, 90 * minute},
				{hour, minute, expire(2*minute, IfGreater), typ == Overall, hour, hour},
			} {
				f.Redis.FlushAll()
				rate.KeepAlive = 0
				require.NoError(t, l.SetRate(ctx, rate))
				f.RequireGranted(l, 1)
				f.setTTLs(step.config, outlasting(step.state, rate))
				changed, err := step.call()
				require.NoError(t, err)
				require.Equal(t, step.changed, changed, "%v, step %d", typ, i)
				f.requireTTLs(step.after, outlasting(step.stateAfter, rate), fmt.Sprintf("%v, step %d", typ, i))
				left, err := l.RemainTimeToLive(ctx)
				require.NoError(t, err)
				require.Equal(t, cmp.Or(step.after, NeverExpires), left)
				at, err := l.ExpireTime(ctx)
				require.NoError(t, err)
				require.True(t, step.after == 0 && at.IsZero() || at.Equal(time.Now().Add(step.after)), at)
			}
			f.RequireTrue(l.Expire(ctx, -time.Second))
			left, err := l.RemainTimeToLive(ctx)
			require.NoError(t, err)
			assert.Equal(t, DoesNotExist, left)
			assert.Empty(t, f.Redis.Keys())
		})
	}
}

func TestExpire_StateInItsLastMillisecond_IsExtended(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := f.limiter(Rate{Permits: 10, Interval: time.Second})
		f.RequireGranted(l, 10)
		f.setTTLs(time.Minute, time.Millisecond)
		f.Reply("PTTL", "{limiter}:permits", func(peer *server.Peer, _ []string) { peer.WriteInt(0) })
		f.RequireNoError(l.Expire(t.Context(), time.Hour, IfNotSet))
		assert.Equal(t, time.Minute+time.Millisecond, f.Redis.TTL("{limiter}:permits"))
	})
}

// TestAcquire_WaitersKey_IsOfWaitersOnly: it is in the slot of the limiter, expires after them, and no other call
// reads or changes it. A PerClient limiter has none.
func TestAcquire_WaitersKey_IsOfWaitersOnly(t *testing.T) {
	for _, kind := range []RateType{Overall, PerClient} {
		withRedis(t, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Type: kind, Permits: 2, Interval: time.Minute})
			f.RequireGranted(l, 2)
			require.NoError(t, redistest.Err(l.Take(t.Context(), 1)))
			key := l.protocol.keys.waiters()
			assert.False(t, f.Redis.Exists(key))
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			go func() { _ = l.Acquire(ctx, 1) }()
			time.Sleep(time.Millisecond)
			assert.Equal(t, kind == Overall, f.Redis.Exists(key), kind)
			assert.True(t, strings.HasPrefix(key, "{limiter}:waiters:"), key)
			size, err := l.SizeInMemory(t.Context())
			require.NoError(t, err)
			f.RequireNoError(l.Copy(t.Context(), "copy"))
			require.NoError(t, l.Rename(t.Context(), "other"))
			assert.Equal(t, kind == Overall, f.Redis.Exists(key), "it is not renamed")
			same := New(f.Conn, WithClientID(uuid.MustParse(l.protocol.client.ID())))
			require.NoError(t, same.Limiter("other").Rename(t.Context(), "limiter"))
			again, err := l.SizeInMemory(t.Context())
			require.NoError(t, err)
			assert.Equal(t, size, again)
			f.RequireNoError(l.Delete(t.Context()))
			assert.Equal(t, kind == Overall, f.Redis.Exists(key), "Delete leaves it")
			stop()
			time.Sleep(10 * time.Second)
			assert.False(t, f.Redis.Exists(key))
		})
	}
}
