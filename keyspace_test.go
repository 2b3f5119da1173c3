package rratelimiter

import (
	"context"
	"errors"
	"testing"
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
