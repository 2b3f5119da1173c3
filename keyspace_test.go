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
)

func TestDelete_Keys_AreAllDeleted(t *testing.T) {
	withRedis(t, func(b *fixture) {
		ctx := b.Context()
		for _, typ := range []RateType{Overall, PerClient} {
			for _, remove := range []func(*Limiter, context.Context) (bool, error){(*Limiter).Delete, (*Limiter).Unlink} {
				l := b.limiter(Rate{Type: typ, Permits: 2, Interval: second})
				b.yes(l.Touch(ctx))
				b.Take(l, 1)
				b.yes(l.Exists(ctx))

				b.yes(remove(l, ctx))
				assert.Empty(b, b.Redis.Keys())
				b.no(remove(l, ctx))
				b.no(l.Touch(ctx))
				b.no(l.Exists(ctx))
			}
		}
	})
}

func TestRename_State_IsMoved(t *testing.T) {
	withRedis(t, func(b *fixture) {
		ctx := b.Context()
		c := New(b.Conn)
		rate := Rate{Permits: 10, Interval: time.Minute}
		from, to := c.Limiter("from"), c.Limiter("to")
		require.NoError(b, from.SetRate(ctx, rate))
		require.NoError(b, to.SetRate(ctx, Rate{Type: PerClient, Permits: 3, Interval: time.Minute}))
		b.Take(from, 4)
		b.Take(to, 3)

		b.no(from.RenameNX(ctx, "to"))
		b.Free(from, 6)

		require.NoError(b, from.Rename(ctx, "to"))
		assert.Equal(b, []string{"to", "{to}:permits", "{to}:value"}, b.Redis.Keys(), "nothing of the old ones stays")
		b.Free(to, 6)
		assert.ErrorIs(b, from.Rename(ctx, "to"), ErrNotInitialized)

		b.yes(to.RenameNX(ctx, "from"))
		b.Free(from, 6)
		require.NoError(b, from.Rename(ctx, "from"))
		b.Free(from, 6)
	})
}

// TestCopy_State_IsSeparate: Replace removes the state that the new name had.
func TestCopy_State_IsSeparate(t *testing.T) {
	withRedis(t, func(b *fixture) {
		ctx, c := b.Context(), New(b.Conn)
		from, to := c.Limiter("from"), c.Limiter("to")
		rate := Rate{Permits: 10, Interval: time.Minute}
		require.NoError(b, from.SetRate(ctx, rate))
		b.Take(from, 4)
		b.yes(from.Copy(ctx, "to"))
		b.Take(to, 6)
		b.Free(from, 6)
		b.no(from.Copy(ctx, "to"))
		b.Free(to, 0)

		require.NoError(b, to.SetRate(ctx, Rate{Permits: 20, Interval: time.Minute}))
		b.Take(to, 19)
		b.yes(from.Copy(ctx, "to", Replace()))
		assert.Equal(b, rate, b.configured(to))
		b.Free(to, 6)
		b.Redis.Del("{to}:value")
		b.Free(to, 6)

		require.NoError(b, from.SetRate(ctx, rate))
		b.yes(from.Copy(ctx, "to", Replace()))
		b.Free(to, 10)
		assert.Equal(b, []string{"from", "to"}, b.Redis.Keys())
	})
}

func TestSizeInMemory_Keys_AreAllCounted(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 1000, Interval: time.Minute})
		empty, err := l.SizeInMemory(b.Context())
		require.NoError(b, err)
		assert.Positive(b, empty)
		for range 100 {
			b.Take(l, 1)
		}
		full, err := l.SizeInMemory(b.Context())
		require.NoError(b, err)
		assert.Greater(b, full, empty+1000)
	})
}

// TestCopy_StateExpiresEarly_IsExtended: the copied state lasts as long as its configuration.
func TestCopy_StateExpiresEarly_IsExtended(t *testing.T) {
	for _, typ := range []RateType{Overall, PerClient} {
		for _, config := range []time.Duration{0, time.Minute} {
			withRedis(t, func(b *fixture) {
				l := b.limiter(Rate{Type: typ, Permits: 10, Interval: time.Hour})
				b.Take(l, 10)
				b.setTTLs(config, second)
				b.yes(l.Copy(b.Context(), "copy"))
				require.NoError(b, l.Rename(b.Context(), "to"))
				pass(2 * second)
				b.Full(l.wire.client.Limiter("copy"), 1)
				b.Full(l.wire.client.Limiter("to"), 1)
			})
		}
	}
}

// TestRename_NamesOfOneState_IsRefused: Redisson's "x" and "{x}" are two configurations with one
// value and one set.
func TestRename_NamesOfOneState_IsRefused(t *testing.T) {
	withRedis(t, func(b *fixture) {
		c := New(b.Conn)
		for _, names := range [][2]string{{"x", "{x}"}, {"{x}", "x"}} {
			from := c.Limiter(names[0])
			require.NoError(b, from.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}))
			b.Take(from, 4)
			before := b.Redis.Dump()
			require.ErrorIs(b, from.Rename(b.Context(), names[1]), ErrInvalidName)
			_, err := from.RenameNX(b.Context(), names[1])
			require.ErrorIs(b, err, ErrInvalidName)
			_, err = from.Copy(b.Context(), names[1], Replace())
			require.ErrorIs(b, err, ErrInvalidName)
			assert.Equal(b, before, b.Redis.Dump())
			require.NoError(b, from.Rename(b.Context(), names[0]), "its own name")
			b.Free(from, 6)
			b.must(from.Delete(b.Context()))
		}
	})
}

// TestRename_CommandIsNotPermitted_ChangesNothing: the value of the new name may be lost, and is
// counted again.
func TestRename_CommandIsNotPermitted_ChangesNothing(t *testing.T) {
	for _, command := range []string{"PTTL", "HMGET", "UNLINK", "EXISTS", "RENAME"} {
		withRedis(t, func(b *fixture) {
			ctx, c := b.Context(), New(b.Conn)
			from, to := c.Limiter("from"), c.Limiter("to")
			for _, l := range []*Limiter{from, to} {
				require.NoError(b, l.SetRate(ctx, Rate{Permits: 10, Interval: time.Minute}))
			}
			b.Take(from, 4)
			b.Take(to, 9)
			b.Reply(command, "", func(peer *server.Peer, _ []string) { peer.WriteError("NOPERM") })
			_, err := from.RenameNX(ctx, "new")
			require.Error(b, err, command)
			if command != "EXISTS" { // which looks whether there is a limiter of the new name
				require.Error(b, from.Rename(ctx, "to"), command)
			}
			b.Reply("", "none", nil)
			b.Free(from, 6)
			b.Free(to, 1)
		})
	}
}

// TestCopy_ServerLacksTheCommand_IsUnsupported: errors of Redis 6.0, 6.2 and 7.0, for Expire as
// well.
func TestCopy_ServerLacksTheCommand_IsUnsupported(t *testing.T) {
	ctx := context.Background()
	inASecond := func(l *Limiter, when ...ExpireOption) error { return errOf(l.Expire(ctx, second, when...)) }
	for _, test := range []struct {
		command, text string
		call          func(l *Limiter) error
		want          []string // in the error, with ErrUnsupported; nil if that is not the reason
	}{
		{"COPY", "ERR unknown command 'COPY'",
			func(l *Limiter) error { return errOf(l.Copy(ctx, "copy", Replace())) }, []string{"Copy", `"limiter"`, "6.2"}},
		{"COPY", "NOPERM this user has no permissions to run the 'copy' command",
			func(l *Limiter) error { return errOf(l.Copy(ctx, "copy")) }, nil},
		{"PEXPIRE", "@user_script: 12: Wrong number of args calling Redis command From Lua script",
			func(l *Limiter) error { return inASecond(l, IfSet) }, []string{"Expire", `"limiter"`, "7.0"}},
		{"PEXPIREAT", "ERR Wrong number of args calling Redis command from script",
			func(l *Limiter) error { return errOf(l.ExpireAt(ctx, time.Now().Add(second), IfNotSet)) },
			[]string{"ExpireAt", `"limiter"`, "7.0"}},
		{"PEXPIRE", "ERR Wrong number of args calling Redis command from script",
			func(l *Limiter) error { return inASecond(l) }, nil},
		{"PEXPIRE", "NOPERM this user has no permissions",
			func(l *Limiter) error { return inASecond(l, IfSet) }, nil},
	} {
		withRedis(t, func(b *fixture) {
			l := b.limiter(Rate{Permits: 10, Interval: second})
			b.Take(l, 4)
			other := l.wire.client.Limiter("copy")
			if test.command == "COPY" && test.want != nil {
				require.NoError(b, other.SetRate(b.Context(), Rate{Permits: 3, Interval: second}))
				b.Take(other, 3)
			}
			before := b.Redis.Dump()
			b.Reply(test.command, "", func(peer *server.Peer, _ []string) { peer.WriteError(test.text) })
			err := test.call(l)
			var redisErr *rueidis.RedisError
			if test.want == nil {
				require.ErrorAs(b, err, &redisErr, test.text)
				require.False(b, errors.Is(err, ErrUnsupported), test.text)
			} else {
				require.ErrorIs(b, err, ErrUnsupported, test.text)
				for _, word := range test.want {
					require.ErrorContains(b, err, word)
				}
			}
			require.Equal(b, before, b.Redis.Dump(), "nothing was changed")
		})
	}
}

// TestExpireTime_OldServer_IsComputed: Redis has PEXPIRETIME since 7.0.
func TestExpireTime_OldServer_IsComputed(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(Rate{Permits: 10, Interval: second})
		pass(1234 * time.Millisecond)
		unknown := b.Reply("PEXPIRETIME", "", func(peer *server.Peer, _ []string) { peer.WriteError("ERR unknown command") })
		at, err := l.ExpireTime(b.Context())
		require.NoError(b, err)
		assert.True(b, at.IsZero())
		b.must(l.Expire(b.Context(), time.Minute))
		at, err = l.ExpireTime(b.Context())
		require.NoError(b, err)
		assert.Equal(b, time.Now().Add(time.Minute).UnixMilli(), at.UnixMilli())
		assert.Equal(b, 2, *unknown)
	})
}
