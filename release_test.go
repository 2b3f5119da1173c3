package rratelimiter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// leased grants permits as a lease that ends after d, with the mark of a Client.
func (b *bubble) leased(c *Client, permits int64, d time.Duration) (member string) {
	b.Helper()
	member = string(c.appendMember(nil, permits, true))
	_, err := b.Redis.ZAdd("{limiter}:permits", float64(time.Now().Add(d).UnixMilli()), member)
	require.NoError(b, err)
	_, err = b.Redis.Incr("{limiter}:value", -int(permits))
	require.NoError(b, err)
	return member
}

// TestRelease_LeasesOfOthers_AreReleasedLast: the permits that another process has leased and not used return when its
// lease ends, whatever this process releases.
func TestRelease_LeasesOfOthers_AreReleasedLast(t *testing.T) {
	for name, ownLease := range map[string]bool{"a plain grant": false, "a lease of its own": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := b.limiter(Rate{Permits: 100, Interval: time.Hour})
				b.Take(l, 1)
				other := New(b.Conn)
				lease := b.leased(other, 20, second/2)
				if ownLease {
					b.leased(l.wire.client, 30, second)
				} else {
					b.Take(l, 30)
				}
				require.NoError(b, l.Release(b.Context(), 31))
				b.Free(l, 80)
				score, err := b.Redis.ZScore("{limiter}:permits", lease)
				require.NoError(b, err, "the other process's lease is there")
				require.NotZero(b, score)
				require.NoError(b, other.Limiter("limiter").wire.giveBack(b.Context(), 20, lease[:17], 20))
				b.Free(l, 100)

				lease = b.leased(other, 20, second/2)
				b.Take(l, 1)
				require.NoError(b, l.Release(b.Context(), 5))
				b.Free(l, 84)
				require.NoError(b, other.Limiter("limiter").wire.giveBack(b.Context(), 20, lease[:17], 20))
				b.Free(l, 100)
			})
		})
	}
}

// TestAcquire_PermitsLeasedByOthers_WaitsForTheLeaseToEnd: the wait is not an interval longer.
func TestAcquire_PermitsLeasedByOthers_WaitsForTheLeaseToEnd(t *testing.T) {
	inBubble(t, func(b *bubble) {
		const interval = 10 * time.Second
		l := b.limiter(Rate{Permits: 100, Interval: interval})
		b.Take(l, 40)
		other := New(b.Conn).Limiter("limiter")
		lease := b.leased(other.wire.client, 60, 600*time.Millisecond)
		d, err := l.Take(b.Context(), 50)
		require.NoError(b, err)
		assert.False(b, d.Allowed)
		assert.Equal(b, 650*time.Millisecond, d.RetryAfter)
		go func() {
			time.Sleep(600 * time.Millisecond)
			assert.NoError(b, other.wire.giveBack(b.Context(), 60, lease[:17], 60))
		}()
		start := time.Now()
		ok, err := l.TryAcquireWithin(b.Context(), 50, 5*time.Second)
		require.NoError(b, err)
		assert.True(b, ok)
		assert.Less(b, time.Since(start), second)

		// A lease that is used up returns an interval later.
		b.leased(other.wire.client, 10, 600*time.Millisecond)
		d, err = l.Take(b.Context(), 5)
		require.NoError(b, err)
		assert.Equal(b, 650*time.Millisecond, d.RetryAfter)
		pass(650 * time.Millisecond)
		d, err = l.Take(b.Context(), 5)
		require.NoError(b, err)
		assert.False(b, d.Allowed)
		assert.Greater(b, d.RetryAfter, 8*time.Second)
	})
}

// TestRename_NamesOfOneState_IsRefused: Redisson's "x" and "{x}" are two configurations with one value and one set.
func TestRename_NamesOfOneState_IsRefused(t *testing.T) {
	inBubble(t, func(b *bubble) {
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
			_, err = from.Delete(b.Context())
			require.NoError(b, err)
		}
	})
}
