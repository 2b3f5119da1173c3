package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// TestSlot_Moves_CallIsRepeated: no script ran, so a retry is safe. The grant has the time of the
// retry.
func TestSlot_Moves_CallIsRepeated(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour})
		const moving = "TRYAGAIN Multiple keys request during rehashing of slot"
		b.Redis.SetError(moving)
		time.AfterFunc(100*time.Millisecond, func() { b.Redis.SetError("") })
		start := time.Now()
		b.Take(l, 10)
		assert.Less(b, time.Since(start), 200*time.Millisecond)
		members, err := b.Redis.ZMembers("{limiter}:permits")
		require.NoError(b, err)
		score, err := b.Redis.ZScore("{limiter}:permits", members[0])
		require.NoError(b, err)
		assert.GreaterOrEqual(b, int64(score), start.UnixMilli()+100)

		// Free permits are those at the time of the answer, too.
		quick := rratelimiter.New(b.Conn).Limiter("quick")
		require.NoError(b, quick.SetRate(b.Context(), rratelimiter.Rate{Permits: 10, Interval: second}))
		b.Take(quick, 10)
		pass(950 * time.Millisecond)
		b.Redis.SetError(moving)
		time.AfterFunc(100*time.Millisecond, func() { b.Redis.SetError("") })
		b.Free(quick, 10)
	})
}

func TestSlot_Moves_DenialCountsFromTheRetry(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour}, rratelimiter.WithDenialCache(time.Hour))
		start := time.Now()
		b.Take(l, 10)
		b.Redis.SetError("TRYAGAIN Multiple keys request during rehashing of slot")
		time.AfterFunc(100*time.Millisecond, func() { b.Redis.SetError("") })
		b.Full(l, 1)
		pass(second)
		d, denied := b.remembered(l, 1)
		assert.True(b, denied)
		assert.Equal(b, time.Hour-time.Since(start), d.RetryAfter)
	})
}

func TestSlot_KeepsMoving_FailsAfterAQuarterOfASecond(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour})
		b.Redis.SetError("TRYAGAIN Multiple keys request during rehashing of slot")
		for name, call := range map[string]func() error{
			"TryAcquire": func() error { return errOf(l.TryAcquire(b.Context(), 1)) },
			"Release":    func() error { return l.Release(b.Context(), 1) },
		} {
			start := time.Now()
			assert.ErrorContains(b, call(), "TRYAGAIN")
			assert.Equal(b, 255*time.Millisecond, time.Since(start), name)
		}
		b.Redis.SetError("")
	})
}
