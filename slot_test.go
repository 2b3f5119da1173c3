package rratelimiter

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestASlotThatMovesIsWaitedFor: nothing was run, so asking again is safe; the grant is dated when it is made.
func TestASlotThatMovesIsWaitedFor(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
		const moving = "TRYAGAIN Multiple keys request during rehashing of slot"
		b.Redis.SetError(moving)
		time.AfterFunc(100*time.Millisecond, func() { b.Redis.SetError("") })
		start := time.Now()
		b.Take(l, 10)
		assert.Less(b, time.Since(start), 200*time.Millisecond)
		score, err := b.Redis.ZScore("{limiter}:permits", firstMember(b))
		require.NoError(b, err)
		assert.GreaterOrEqual(b, int64(score), start.UnixMilli()+100)

		// What is free is told as of the answer, too.
		quick := New(b.Conn).Limiter("quick")
		require.NoError(b, quick.SetRate(b.Context(), Rate{Permits: 10, Interval: second}))
		b.Take(quick, 10)
		pass(950 * time.Millisecond)
		b.Redis.SetError(moving)
		time.AfterFunc(100*time.Millisecond, func() { b.Redis.SetError("") })
		b.Free(quick, 10)

		b.Redis.SetError(moving)
		_, err = l.TryAcquire(b.Context(), 1)
		assert.ErrorContains(b, err, "TRYAGAIN")
		b.Redis.SetError("")
	})
}

// ofACluster is a client of a Redis Cluster, as far as it says.
type ofACluster struct{ rueidis.Client }

func (ofACluster) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

// TestAClusterIsKnownByItsClient: there a name has its keys in one slot, or is refused.
func TestAClusterIsKnownByItsClient(t *testing.T) {
	inBubble(t, func(b *bubble) {
		for _, name := range []string{"limiter", "{tag}:limiter"} {
			_, err := New(ofACluster{b.Conn}).Limiter(name).Exists(b.Context())
			assert.NoError(b, err, name)
		}
		_, err := New(ofACluster{b.Conn}).Limiter("{}limiter").Exists(b.Context())
		assert.ErrorIs(b, err, ErrCrossSlot)
		_, err = New(b.Conn).Limiter("{}limiter").Exists(b.Context())
		assert.NoError(b, err)
	})
}
