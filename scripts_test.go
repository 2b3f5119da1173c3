package rratelimiter

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// texts is a reply of the acquire script as text, its parts with a space between them.
func texts(t require.TestingT, reply rueidis.RedisMessage, err error) string {
	require.NoError(t, err)
	if reply.IsInt64() {
		n, _ := reply.AsInt64()
		return strconv.FormatInt(n, 10)
	}
	parts, err := reply.ToArray()
	require.NoError(t, err)
	var all []string
	for _, p := range parts {
		if n, err := p.AsInt64(); err == nil {
			all = append(all, strconv.FormatInt(n, 10))
		} else {
			text, _ := p.ToString()
			all = append(all, text)
		}
	}
	return strings.Join(all, " ")
}

// ask runs the acquire script for requests. The reply, where it is a long one, must tell the script's now, which is left out here.
func (b *bubble) ask(l *Limiter, flags, runs string) string {
	var total int64
	for run := range strings.FieldsSeq(runs) {
		var permits, times int64
		_, _ = fmt.Sscanf(run, "%d*%d", &permits, &times)
		total += permits * times
	}
	config := b.config()
	member := string(l.wire.client.appendMember(nil, total, false))
	reply, err := b.run(acquireScript, l, b.nowText(), member, config.rate, config.interval, fmt.Sprint(total), "", flags, runs)
	parts := strings.Split(texts(b, reply, err), " ")
	if len(parts) > 1 {
		now, err := strconv.ParseInt(parts[5], 10, 64)
		require.NoError(b, err)
		require.Equal(b, time.Now().UnixMilli(), now)
		require.Contains(b, []string{"", "done"}, parts[7])
		parts = slices.Delete(slices.Delete(parts, 7, 8), 5, 6)
	}
	return strings.Join(parts, " ")
}

// config reads the limiter's rate and interval.
func (b *bubble) config() struct{ rate, interval string } {
	return struct{ rate, interval string }{b.Redis.HGet("limiter", "rate"), b.Redis.HGet("limiter", "interval")}
}

// TestRepliesOfTheAcquireScript are {0, left, rate, interval, reset, now, answers, counted, wait, permits, ...}, here
// without now and counted.
func TestRepliesOfTheAcquireScript(t *testing.T) {
	for _, test := range []struct {
		name, flags, runs, want string
		took                    []int64 // before, a second apart
	}{
		{"granted alone", "", "3*1", "7", nil},
		{"granted together", "", "3*2 1*4", "0", nil},
		{"denied alone", "", "3*1", "-1", []int64{8}},
		{"all the rate", "", "10*1", "0", nil},
		{"twice all the rate", "", "10*2", "0 0 10 60000 0 gn", nil},
		{"twice all the rate, and nothing is free", "", "10*2", "-1", []int64{1}},
		{"above the rate", "", "11*2", "0 0 10 60000 0 xx", nil},
		{"above the rate and not", "", "11*1 10*1", "0 0 10 60000 0 xg", nil},
		{"above the rate, and denied", "", "11*1 10*1", "0 9 10 60000 0 xn", []int64{1}},
		{"mixed", "", "4*1 5*1 2*2 1*1", "0 0 10 60000 0 ggnng", nil},
		{"small ones overtake", "", "4*1 8*1 6*1", "0 0 10 60000 0 gng", nil},
		{"nobody overtakes", "o", "4*1 8*1 6*1", "0 6 10 60000 0 gnn", nil},
		{"above the rate holds nobody up", "o", "4*1 11*1 6*1", "0 0 10 60000 0 gxg", nil},
		{"detail", "d", "3*1", "0 7 10 60000 60000 *", nil},
		{"detail of several", "dw", "3*2", "0 4 10 60000 60000 *", nil},
		{"waits for the smallest", "w", "2*1", "0 1 10 60000 0 n 57000 4", []int64{4, 3, 2}},
		{"waits for more", "w", "6*1", "0 1 10 60000 0 n 57000 4 58000 3", []int64{4, 3, 2}},
		{"waits for exactly that", "w", "5*1", "0 1 10 60000 0 n 57000 4", []int64{4, 3, 2}},
		{"waits for two grants", "w", "3*1", "0 1 10 60000 0 n 58000 1 59000 8", []int64{1, 8}},
		{"waits for the largest", "w", "6*1 2*1", "0 1 10 60000 0 nn 57000 4 58000 3", []int64{4, 3, 2}},
		{"waits for the largest, behind", "w", "2*1 6*1", "0 1 10 60000 0 nn 57000 4 58000 3", []int64{4, 3, 2}},
		{"waits of the line are all", "ow", "2*1", "0 1 10 60000 0 n 57000 4 58000 3 59000 2", []int64{4, 3, 2}},
		{"all waits, out of order", "wa", "2*1 1*1", "0 0 10 60000 0 ng 57000 4 58000 3 59000 2 60000 1", []int64{4, 3, 2}},
		{"waits after a grant", "ow", "1*1 9*1", "0 0 10 60000 0 gn 57000 4 58000 3 59000 2 60000 1", []int64{4, 3, 2}},
		{"waits, where the grant is the first", "w", "5*1 6*1", "0 5 10 60000 0 gn 60000 5", nil},
	} {
		inBubble(t, func(b *bubble) {
			l := b.limiter(Rate{Permits: 10, Interval: time.Minute})
			for _, n := range test.took {
				b.Take(l, n)
				pass(second)
			}
			assert.Equal(b, test.want, b.ask(l, test.flags, test.runs), test.name)
		})
	}
}

// TestGrantsOfOneMoment come back together, whatever bytes their permits have.
func TestGrantsOfOneMoment(t *testing.T) {
	inBubble(t, func(b *bubble) {
		const rate = 1 << 40
		l := b.limiter(Rate{Permits: rate, Interval: time.Minute})
		sum := int64(0)
		for i, n := range []int64{1, 0x100, 0x10000, 0x1000000, 0x01020304, 0xfffffffe} {
			b.granted(l, string(rune('a'+i)), n)
			sum += n
		}
		pass(second)
		b.granted(l, "z", 5)
		assert.Equal(b, fmt.Sprintf("0 %d %d 60000 0 n 59000 %d 60000 5", rate-sum-5, int64(rate), sum), b.ask(l, "w", fmt.Sprint(int64(rate), "*1")))
		b.Redis.Del("{limiter}:value")
		b.Free(l, rate-sum-5)
		b.Take(l, 1)
		b.Free(l, rate-sum-6)
		require.NoError(b, l.SetRate(b.Context(), Rate{Permits: rate, Interval: time.Minute}, KeepState()))
		b.Free(l, rate-sum-6)
		require.NoError(b, l.Release(b.Context(), 0x1010101+0x01020304))
		b.Free(l, rate-sum-6+0x1010101+0x01020304)
		pass(59 * second)
		b.Free(l, rate-6)
	})
}

// TestAPageIsAPage: 256 grants, no fewer and no more, in whatever walks over them.
func TestAPageIsAPage(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10_000, Interval: 10 * second})
		fill := func(n int) {
			b.Redis.FlushAll()
			require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10_000, Interval: 10 * second}))
			for range n {
				_, err := b.Redis.ZAdd("{limiter}:permits", float64(time.Now().UnixMilli()), string(new(Client).appendMember(nil, 2, false)))
				require.NoError(b, err)
			}
			require.NoError(b, b.Redis.Set("{limiter}:value", strconv.Itoa(10_000-2*n)))
		}
		calls := func(want int64, what func()) {
			b.Helper()
			before := b.Scripts.Load()
			what()
			assert.Equal(b, want, b.Scripts.Load()-before, "calls")
		}
		for n, pages := range map[int]int64{255: 1, 256: 1, 257: 2, 512: 2, 513: 3} {
			fill(n)
			assert.Equal(b, 6+2*1, len(strings.Fields(b.ask(l, "w", "10000*1"))), "all of one moment")
			b.Redis.Del("{limiter}:value")
			calls(pages, func() { b.Take(l, 1) })
			require.NoError(b, l.Release(b.Context(), int64(2*n)))
			b.Free(l, 9999)

			// As many leave the window, and one does not.
			fill(n)
			pass(5 * second)
			b.Take(l, 1)
			pass(5 * second)
			calls((int64(n)+256)/256, func() { b.Free(l, 9999) })
			calls(1, func() { b.Take(l, 1) })
			calls(max(1, pages-1), func() { b.Take(l, 9998) })
			b.Full(l, 1)

			fill(n)
			pass(5 * second)
			b.Take(l, 1)
			pass(5 * second)
			calls(pages, func() { b.Full(l, 10_000) })
			calls(1, func() { b.Take(l, 9999) })

			fill(n)
			calls(1, func() { require.NoError(b, l.Release(b.Context(), int64(2*n))) })
			b.Free(l, 10_000)

			fill(n)
			require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 1000, Interval: 10 * second}, KeepState()))
			b.Free(l, max(0, 1000-int64(2*n)))
		}
	})
}

// TestAReleaseBehindGrantsThatHaveLeft frees what is taken, not what is back anyway.
func TestAReleaseBehindGrantsThatHaveLeft(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 1000, Interval: 10 * second})
		for range 300 {
			b.Take(l, 1)
		}
		pass(5 * second)
		b.Take(l, 600)
		pass(5 * second)
		require.NoError(b, l.Release(b.Context(), 100))
		b.Free(l, 500)
		pass(5 * second)
		b.Free(l, 1000)
		b.Take(l, 1000)
	})
}

// TestACursorIsForTheSetThatItWasMadeFor, and for no more grants than are there.
func TestACursorIsForTheSetThatItWasMadeFor(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 1000, Interval: 10 * second})
		for range 300 {
			b.Take(l, 1)
		}
		pass(second)
		b.granted(l, "z", 7)
		first := func() string {
			members, err := b.Redis.SortedSet("{limiter}:permits")
			require.NoError(b, err)
			oldest := ""
			for m, score := range members {
				if oldest == "" || score < members[oldest] || score == members[oldest] && m < oldest {
					oldest = m
				}
			}
			return oldest
		}()
		b.Redis.Del("{limiter}:value")
		taken := func(cursor string) string {
			reply, err := b.run(availableScript, l, b.nowText(), "", "", "", "", cursor)
			return strings.Join(strings.Fields(texts(b, reply, err))[:2], " ")
		}
		newest := member("z", 7)
		assert.Equal(b, "1 256", taken(""))
		assert.Equal(b, "0 693", taken("256 262 "+newest), "goes on: 262 counted, and 45 to come")
		assert.Equal(b, "1 256", taken("256 262 "+member("y", 7)), "begins anew, another grant being the newest")

		counted := func(cursor string) string {
			reply, err := b.run(acquireScript, l, b.nowText(), member("n", 1000), "1000", "10000", "1000", cursor)
			return strings.Fields(texts(b, reply, err))[0] + " " + strings.Join(strings.Fields(texts(b, reply, err))[1:], " ")
		}
		assert.Contains(b, counted("400 0 "+newest), "1 256 262", "begins anew, since there are no 400")
		assert.Contains(b, counted("256 262 "+member("y", 7)), "1 256 262")
		assert.Equal(b, "-1 ", counted("256 262 "+newest))

		// With a value it is what has left the window that is counted, the oldest first.
		pass(9 * second)
		assert.Equal(b, "1 256", taken(""))
		assert.Equal(b, "0 993", taken("256 256 "+first))
		assert.Equal(b, "1 256", taken("256 256 "+newest))
	})
}

// TestKeepStateAtTheEdge of the new interval, by this clock and by the server's.
func TestKeepStateAtTheEdge(t *testing.T) {
	for _, opts := range [][]Option{nil, {WithServerTime()}} {
		inBubble(t, func(b *bubble) {
			l := b.limiter(Rate{Permits: 10, Interval: time.Minute}, opts...)
			b.Take(l, 4)
			pass(1234 * time.Millisecond)
			b.Take(l, 3)
			pass(5 * second)
			require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: 5*second + time.Millisecond}, KeepState()))
			b.Free(l, 7)
			require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: 5 * second}, KeepState()))
			b.Free(l, 10)
			assert.Empty(b, b.grants())
		})
	}
}

// TestKeepStateOfManyGrantsWithoutAValue, where more are there than a call counts, and a value above the new rate.
func TestKeepStateOfManyGrantsWithoutAValue(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10_000, Interval: 10 * second})
		for range 300 {
			b.Take(l, 1)
		}
		b.Redis.Del("{limiter}:value")
		require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 400, Interval: 10 * second}, KeepState()))
		b.Free(l, 100)
		b.Take(l, 1)

		require.NoError(b, b.Redis.Set("{limiter}:value", "20000"))
		require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 500, Interval: 10 * second}, KeepState()))
		value, err := b.Redis.Get("{limiter}:value")
		require.NoError(b, err)
		assert.Equal(b, "500", value)
	})
}

// TestWhatMakesALimiter: its type for TrySetRate, as in Redisson, and anything at all for UpdateRate.
func TestWhatMakesALimiter(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx, l, rate := b.Context(), New(b.Conn).Limiter("limiter"), Rate{Permits: 10, Interval: second}
		b.Redis.HSet("limiter", "rate", "7", "interval", "2000")
		set, err := l.TrySetRate(ctx, rate)
		require.NoError(b, err)
		assert.True(b, set)
		config, err := l.Config(ctx)
		require.NoError(b, err)
		assert.Equal(b, Rate{Permits: 7, Interval: 2 * second}, config, "what was there stays")
		set, err = l.TrySetRate(ctx, rate)
		require.NoError(b, err)
		assert.False(b, set)

		b.Redis.FlushAll()
		b.Redis.HSet("limiter", "type", "0")
		set, err = l.TrySetRate(ctx, rate)
		require.NoError(b, err)
		assert.False(b, set)
		b.Redis.FlushAll()
		b.Redis.HSet("limiter", "rate", "7")
		updated, err := l.UpdateRate(ctx, rate)
		require.NoError(b, err)
		assert.True(b, updated)
		config, err = l.Config(ctx)
		require.NoError(b, err)
		assert.Equal(b, rate, config)
	})
}

// TestAServerThatLacksTheCall is Issue 9, point 14: texts of Redis 6.0, 6.2 and 7.0.
func TestAServerThatLacksTheCall(t *testing.T) {
	for _, test := range []struct {
		command, text string
		call          func(b *bubble, l *Limiter) error
		want          []string // in the error, with ErrUnsupported; nil where that is not the reason
	}{
		{"COPY", "ERR unknown command 'COPY'", func(b *bubble, l *Limiter) error {
			_, err := l.Copy(b.Context(), "copy", Replace())
			return err
		}, []string{"Copy", `"limiter"`, "6.2"}},
		{"COPY", "NOPERM this user has no permissions to run the 'copy' command", func(b *bubble, l *Limiter) error {
			_, err := l.Copy(b.Context(), "copy")
			return err
		}, nil},
		{"PEXPIRE", "@user_script: 12: Wrong number of args calling Redis command From Lua script", func(b *bubble, l *Limiter) error {
			_, err := l.Expire(b.Context(), second, IfSet)
			return err
		}, []string{"Expire", `"limiter"`, "7.0"}},
		{"PEXPIREAT", "ERR Wrong number of args calling Redis command from script", func(b *bubble, l *Limiter) error {
			_, err := l.ExpireAt(b.Context(), time.Now().Add(second), IfNotSet)
			return err
		}, []string{"ExpireAt", `"limiter"`, "7.0"}},
		{"PEXPIRE", "ERR Wrong number of args calling Redis command from script", func(b *bubble, l *Limiter) error {
			_, err := l.Expire(b.Context(), second)
			return err
		}, nil},
		{"PEXPIRE", "NOPERM this user has no permissions", func(b *bubble, l *Limiter) error {
			_, err := l.Expire(b.Context(), second, IfSet)
			return err
		}, nil},
	} {
		inBubble(t, func(b *bubble) {
			l := b.limiter(Rate{Permits: 10, Interval: second})
			b.Take(l, 4)
			other := l.wire.client.Limiter("copy")
			if test.command == "COPY" && test.want != nil {
				require.NoError(b, other.SetRate(b.Context(), Rate{Permits: 3, Interval: second}))
				b.Take(other, 3)
			}
			before := b.Redis.Dump()
			b.Reply(test.command, "", func(peer *server.Peer, _ []string) { peer.WriteError(test.text) })
			err := test.call(b, l)
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

// TestExpireTimeOfAnOldServer: PEXPIRETIME came with Redis 7.0.
func TestExpireTimeOfAnOldServer(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: second})
		pass(1234 * time.Millisecond)
		unknown := b.Reply("PEXPIRETIME", "", func(peer *server.Peer, _ []string) { peer.WriteError("ERR unknown command") })
		at, err := l.ExpireTime(b.Context())
		require.NoError(b, err)
		assert.True(b, at.IsZero())
		_, err = l.Expire(b.Context(), time.Minute)
		require.NoError(b, err)
		at, err = l.ExpireTime(b.Context())
		require.NoError(b, err)
		assert.Equal(b, time.Now().Add(time.Minute).UnixMilli(), at.UnixMilli())
		assert.Equal(b, 2, *unknown)
	})
}

// TestACopyReplacesTheState, of either kind, and what the new name alone had goes.
func TestACopyReplacesTheState(t *testing.T) {
	inBubble(t, func(b *bubble) {
		ctx, c := b.Context(), New(b.Conn)
		from, to := c.Limiter("from"), c.Limiter("to")
		require.NoError(b, from.SetRate(ctx, Rate{Permits: 10, Interval: time.Minute}))
		require.NoError(b, to.SetRate(ctx, Rate{Permits: 20, Interval: time.Minute}))
		b.Take(from, 4)
		b.Take(to, 19)
		copied, err := from.Copy(ctx, "to", Replace())
		require.NoError(b, err)
		require.True(b, copied)
		config, err := to.Config(ctx)
		require.NoError(b, err)
		assert.EqualValues(b, 10, config.Permits)
		b.Free(to, 6)
		b.Redis.Del("{to}:value")
		b.Free(to, 6)

		require.NoError(b, from.SetRate(ctx, Rate{Permits: 10, Interval: time.Minute}))
		copied, err = from.Copy(ctx, "to", Replace())
		require.NoError(b, err)
		require.True(b, copied)
		b.Free(to, 10)
		assert.False(b, b.Redis.Exists("{to}:permits"))
		assert.False(b, b.Redis.Exists("{to}:value"))
	})
}

// TestAValueAboveTheRate, beside grants: what is free follows from the grants.
func TestAValueAboveTheRate(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: second})
		b.Take(l, 4)
		require.NoError(b, b.Redis.Set("{limiter}:value", "50"))
		b.Free(l, 10)
		b.Take(l, 3)
		b.Free(l, 3)
		b.Take(l, 3)
		b.Full(l, 1)
	})
}

// TestARenameWithoutARight changes nothing, but that the new name's values are counted anew.
func TestARenameWithoutARight(t *testing.T) {
	for _, command := range []string{"PTTL", "HMGET", "UNLINK", "EXISTS", "RENAME"} {
		inBubble(t, func(b *bubble) {
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
