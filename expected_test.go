package rratelimiter

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// TestAnExpectedGrantIsLikeAnyOther: whatever Redis holds and whatever is asked, both scripts that take permits reply the same and leave
// the same behind.
func TestAnExpectedGrantIsLikeAnyOther(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: second})
		granted := 0
		for seed := range uint64(1000) {
			var seen [2]string
			for i, script := range []*engine.Script{acquireScript, grantScript} {
				random := rand.New(rand.NewPCG(seed, 1))
				one := func(of ...string) string { return of[random.IntN(len(of))] }
				b.redis.FlushAll()
				now := time.Now().UnixMilli()
				b.redis.HSet("limiter", "rate", one("10", "10", "10", "0", "9007199254740992"), "interval", "1000", "type", one("0", "0", "1"))
				if keep := one("", "0", "0", "5000"); keep != "" {
					b.redis.HSet("limiter", "keepAliveTime", keep)
				}
				for _, key := range []string{l.keys[valueKey], l.keys[clientValueKey]} {
					if value := one("", "0", "1", "3", "10", "12", "-2", "x", "9007199254740992", "9007199254740994",
						"100000000000000000"); value != "" {
						require.NoError(b, b.redis.Set(key, value))
					}
				}
				for _, key := range []string{l.keys[permitsKey], l.keys[clientPermitsKey]} {
					if random.IntN(10) == 0 { // of another type
						require.NoError(b, b.redis.Set(key, "1"))
						continue
					}
					for range random.IntN(3) {
						age := []int64{0, 0, 1, 999, 1000, 1500}[random.IntN(6)]
						_, err := b.redis.ZAdd(key, float64(now-age), member(fmt.Sprint(random.IntN(10)), 1+random.Int64N(4)))
						require.NoError(b, err)
					}
				}
				for _, key := range l.keys {
					if random.IntN(8) == 0 && b.redis.Exists(key) {
						b.redis.SetTTL(key, 700*time.Millisecond)
					}
				}
				args := []string{fmt.Sprint(now), member("n", 3), one("", "0", fmt.Sprint(now-1000), fmt.Sprint(now-1000), fmt.Sprint(now-1000))}
				switch random.IntN(4) {
				case 0:
					args = append(args, one("", "1", "3", "11", "4294967296"))
				case 1:
					args = append(args, "6", one("3*2", "2*3", "1*6", "5*1 1*1"), "", "")
				}
				if seed%10 == 0 { // more than a member of a grant counts
					b.redis.HSet("limiter", "rate", "9007199254740992", "type", "0", "keepAliveTime", "0")
					require.NoError(t, b.redis.Set(l.keys[valueKey], "9007199254740992"))
					args = append(args[:2], fmt.Sprint(now-1000), "4294967296")
				}
				keys := l.keys[:]
				if random.IntN(2) == 0 {
					keys = l.keys[:sharedKeys]
				}
				reply, err := l.client.engine.Eval(b.Context(), script, keys, args, nil)
				said := "a key of another type"
				if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
					said = texts(b, reply, err)
				}
				seen[i] = fmt.Sprintln(args, said) + b.redis.Dump() + fmt.Sprint(b.ttls())
				if left, err := reply.AsInt64(); err == nil && left >= 0 {
					granted++
				}
			}
			require.Equal(b, seen[0], seen[1], "seed %d", seed)
		}
		assert.Greater(b, granted, 100)
	})
}

// familiar opens a limiter of which two permits are taken: its interval was told then.
func (b *bubble) familiar(permits int64) *Limiter {
	l := b.limiter(Rate{Permits: permits, Interval: second})
	b.take(l, 1)
	b.take(l, 1)
	return l
}

// TestWhatIsExpectedIsWhatWasSeenLast: the value is not read where a grant is expected, and not written where a denial is.
func TestWhatIsExpectedIsWhatWasSeenLast(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.familiar(3)
		var seen []string
		b.redis.Server().SetPreHook(func(_ *server.Peer, name string, _ ...string) bool {
			switch name {
			case "GET", "EXISTS", "DECRBY":
				seen = append(seen, name)
			}
			return false
		})
		b.take(l, 1)
		assert.Equal(b, []string{"EXISTS", "DECRBY"}, seen)
		seen = nil
		_, err := l.TryAcquire(b.Context(), 4)
		require.ErrorIs(b, err, ErrPermitsExceedRate)
		assert.Equal(b, []string{"GET"}, seen, "more than the rate is never expected")
		seen = nil
		b.full(l, 1)
		assert.Equal(b, []string{"EXISTS", "DECRBY", "DECRBY", "GET"}, seen, "nothing told that it would be denied")
		seen = nil
		b.full(New(b.conn).Limiter("limiter"), 1)
		b.full(l, 1)
		assert.Equal(b, "GET", seen[len(seen)-1])
		seen = nil
		b.full(l, 1)
		assert.Equal(b, []string{"GET"}, seen)
		pass(second)
		for _, permits := range []int64{1, 3} { // granted, and denied
			d, err := l.Take(b.Context(), permits)
			require.NoError(b, err)
			require.Equal(b, permits == 1, d.Allowed)
			seen = nil
			ok, err := l.TryAcquire(b.Context(), 1)
			require.NoError(b, err)
			require.True(b, ok)
			assert.Equal(b, []string{[]string{"EXISTS", "GET"}[permits/2], "DECRBY"}, seen)
		}
	})
}

// TestADenialNeedsNoRightToWrite, though a grant was expected.
func TestADenialNeedsNoRightToWrite(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.familiar(2)
		refused := b.reply("DECRBY", "", func(peer *server.Peer, _ []string) { peer.WriteError("OOM command not allowed") })
		b.full(l, 1)
		assert.Equal(b, 1, *refused)
		pass(second - time.Millisecond)
		b.full(l, 1)
		assert.Equal(b, 1, *refused, "by what was seen last")
	})
}

// TestAGrantNeedsNoRightToSeeThatAKeyIsThere.
func TestAGrantNeedsNoRightToSeeThatAKeyIsThere(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.familiar(4)
		refused := b.reply("EXISTS", "", func(peer *server.Peer, _ []string) { peer.WriteError("NOPERM no right") })
		b.take(l, 1)
		assert.Equal(b, 1, *refused)
		b.free(l, 1)
	})
}

// TestAFullLimiterIsLeftAloneInCompany: what a Client is granted elsewhere does not make it write to a limiter that is full, which others
// have remembered as such.
func TestAFullLimiterIsLeftAloneInCompany(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 1, Interval: second})
		other := l.client.Limiter("other")
		require.NoError(b, other.SetRate(b.Context(), Rate{Permits: 100, Interval: second}))
		b.take(l, 1)
		b.full(l, 1)
		b.full(l, 1)
		b.redis.Server().SetPreHook(func(_ *server.Peer, name string, args ...string) bool {
			if name == "DECRBY" {
				assert.NotEqual(b, l.keys[valueKey], args[0])
			}
			return false
		})
		for range 3 {
			b.take(other, 1)
			b.full(l.client.Limiter("limiter"), 1) // a Limiter may be opened for each call
		}
	})
}
