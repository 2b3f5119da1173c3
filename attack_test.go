package rratelimiter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func (b *bubble) insert(letterer *Limiter, permits int64, at time.Time) string {
	m := string(letterer.client.appendMember(nil, permits, false))
	_, err := b.redis.ZAdd("{limiter}:permits", float64(at.UnixMilli()), m)
	require.NoError(b, err)
	_, err = b.redis.Incr("{limiter}:value", -int(permits))
	require.NoError(b, err)
	return m
}

// A value that is lost while grants are still to be removed.
func TestAttack_ValueLostAtCut(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 1500, Interval: time.Hour})
		for range 1500 {
			b.take(l, 1)
			pass(time.Millisecond)
		}
		b.redissonReleases(700)
		b.redis.Del("{limiter}:value")
		assert.Equal(b, "", b.counted(l, true, 1, "cut 444"))
	})
}

// Go only: a refund while a set is counted takes grants out that are in use.
func TestAttack_RefundWhileCounted_OverGrants(t *testing.T) {
	inBubble(t, func(b *bubble) {
		const rate = 2000
		l := b.limiter(Rate{Permits: rate, Interval: time.Hour})
		b.take(l, 1)
		pass(time.Hour - time.Hour/countPart)
		for range 600 {
			b.take(l, 1)
			pass(time.Millisecond)
		}
		m := string(l.client.appendMember(nil, 600, false))
		_, err := b.run(acquireScript, l, b.nowText(), m, "2000", "3600000", "600")
		require.NoError(b, err)
		pass(time.Millisecond)
		for range 600 {
			b.take(l, 1)
			pass(time.Millisecond)
		}
		start := b.stored()
		b.Log("free", start, "drift", b.drift())
		other := New(b.conn).Limiter("limiter")
		used := int64(1800)
		ask := func() bool {
			ok, err := other.TryAcquire(b.Context(), 1)
			require.NoError(b, err)
			if ok {
				used++
			}
			return ok
		}
		for i := range 3 {
			ask()
			if i == 2 {
				require.NoError(b, l.giveBack(b.Context(), 599, m[:17], 600))
				used -= 599
			}
		}
		for range 40 {
			ask()
			pass(time.Millisecond)
		}
		b.Log("drift", b.drift(), "used", used)
		for i := range 3000 {
			if i%100 == 0 {
				b.Log(i, "drift", b.drift(), "used", used, "value", b.stored(), other.hint().cursor, other.hint().due-time.Now().UnixMilli())
			}
			pass(time.Millisecond)
			if !ask() {
				pass(time.Hour / 3000)
			}
			require.LessOrEqual(b, used, int64(rate))
			if time.Since(time.Time{}) < 0 {
				break
			}
		}
	})
}
