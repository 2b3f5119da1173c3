package rratelimiter

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// run runs a script as it is.
func (b *bubble) run(script *redisx.Script, l *Limiter, args ...string) (rueidis.RedisMessage, error) {
	return l.wire.client.engine.Eval(b.Context(), script, l.wire.keys[:], args, nil)
}

func (b *bubble) nowText() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) }

// member is a member of a grant: one letter 16 times, and the permits.
func member(letter string, permits int64) string {
	return string(appendUint32([]byte("\x10"+strings.Repeat(letter, 16)), permits))
}

// grants are the permits of all members of the overall set, by the letter that they are made of.
func (b *bubble) grants() map[string]int64 {
	all := make(map[string]int64)
	if !b.Redis.Exists("{limiter}:permits") {
		return all
	}
	members, err := b.Redis.ZMembers("{limiter}:permits")
	require.NoError(b, err)
	for _, m := range members {
		all[m[1:2]] += int64(m[17]) | int64(m[18])<<8 | int64(m[19])<<16 | int64(m[20])<<24
	}
	return all
}

// granted takes permits under a member of that letter.
func (b *bubble) granted(l *Limiter, letter string, permits int64) {
	b.Helper()
	reply, err := b.run(acquireScript, l, b.nowText(), member(letter, permits), b.config().rate, b.config().interval, fmt.Sprint(permits))
	require.NoError(b, err)
	left, err := reply.AsInt64()
	require.NoError(b, err)
	require.GreaterOrEqual(b, left, int64(0))
}

// giveBack gives back some permits of a grant of so many.
func (b *bubble) giveBack(l *Limiter, letter string, permits, of int64) error {
	rest := ""
	if of > permits {
		rest = member(letter, of-permits)
	}
	_, err := b.run(giveBackScript, l, b.nowText(), fmt.Sprint(permits), member(letter, of), rest)
	return err
}

func TestGivingBackAPartOfAGrant(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 100_000, Interval: second})
		b.granted(l, "a", 70_000)
		b.granted(l, "b", 2)
		require.NoError(b, b.giveBack(l, "a", 3000, 70_000))
		assert.Equal(b, map[string]int64{"a": 67_000, "b": 2}, b.grants(), "what stays is of those who stayed")
		b.Free(l, 100_000-67_002)
		require.NoError(b, b.giveBack(l, "b", 2, 2))
		assert.Equal(b, map[string]int64{"a": 67_000}, b.grants())
		require.NoError(b, b.giveBack(l, "b", 2, 2), "twice")
		require.NoError(b, b.giveBack(l, "c", 2, 5), "of a grant that was never made")
		b.Free(l, 100_000-67_000)
		b.Redis.Del("{limiter}:value")
		b.Free(l, 100_000-67_000)
		pass(second - time.Millisecond)
		b.Take(l, 1)
		pass(time.Millisecond)
		require.NoError(b, b.giveBack(l, "a", 1, 67_000), "it has left the window at this moment")
		b.Free(l, 99_999)
	})
}

// TestAReleaseThatCutTheGrant is Issue 9, point 12: what the grant still holds is given back, and no more.
func TestAReleaseThatCutTheGrant(t *testing.T) {
	for _, test := range []struct {
		released, givenBack int64
		kept                map[string]int64
	}{
		{3, 2, map[string]int64{"a": 5, "b": 20}},
		{3, 7, map[string]int64{"b": 20}},
		{3, 10, map[string]int64{"b": 20}},
		{9, 4, map[string]int64{"b": 20}},
		{10, 4, map[string]int64{"b": 20}},
		{15, 4, map[string]int64{"b": 15}},
	} {
		inBubble(t, func(b *bubble) {
			l := b.limiter(Rate{Permits: 100, Interval: second})
			b.granted(l, "a", 10)
			pass(time.Millisecond)
			b.granted(l, "b", 20)
			require.NoError(b, l.Release(b.Context(), test.released))
			require.NoError(b, b.giveBack(l, "a", test.givenBack, 10))
			assert.Equal(b, test.kept, b.grants(), "%+v", test)
			free := int64(100)
			for _, n := range test.kept {
				free -= n
			}
			b.Free(l, free)
			b.Redis.Del("{limiter}:value")
			b.Free(l, free)
		})
	}
}

// TestGivingBackWithoutARight: wherever it is stopped, no permit is free that is taken.
func TestGivingBackWithoutARight(t *testing.T) {
	for _, command := range []string{"HMGET", "GET", "PTTL", "ZRANGE", "ZSCORE", "SET", "ZADD", "ZREM", "ZCOUNT", "ZCARD", "ZREMRANGEBYRANK", "PERSIST"} {
		t.Run(command, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := b.limiter(Rate{Permits: 10, Interval: second})
				b.granted(l, "a", 2)
				pass(second / 2)
				b.granted(l, "b", 5)
				pass(second / 2)
				if command == "PERSIST" { // which takes a time to live that somebody else has left
					b.Redis.SetTTL("{limiter}:permits", time.Hour)
				}
				refused := b.Reply(command, "", func(peer *server.Peer, _ []string) {
					peer.WriteError("NOPERM this user has no permissions to run the command")
				})
				require.Error(b, b.giveBack(l, "b", 3, 5))
				require.Equal(b, 1, *refused)
				b.Reply("", "none", nil)
				pass(2 * time.Millisecond) // a value that was given up
				free, err := l.AvailablePermits(b.Context())
				require.NoError(b, err)
				assert.LessOrEqual(b, free, int64(8))
				b.Take(l, 1)
				pass(second / 2)
				b.Free(l, 9)
				b.Take(l, 9)
				b.Full(l, 1)
			})
		})
	}
}
