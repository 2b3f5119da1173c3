package rratelimiter

import (
	"encoding/binary"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// drift returns value + permits in the set - rate.
func (b *bubble) drift() int64 {
	b.Helper()
	text, err := b.redis.Get("{limiter}:value")
	require.NoError(b, err)
	sum, err := strconv.ParseInt(text, 10, 64)
	require.NoError(b, err)
	if b.redis.Exists("{limiter}:permits") {
		members, err := b.redis.ZMembers("{limiter}:permits")
		require.NoError(b, err)
		for _, m := range members {
			sum += int64(binary.LittleEndian.Uint32([]byte(m[len(m)-4:])))
		}
	}
	rate, err := strconv.ParseInt(b.config().rate, 10, 64)
	require.NoError(b, err)
	return sum - rate
}

// redissonReleases raises the value and leaves the grants.
func (b *bubble) redissonReleases(permits int64) {
	b.Helper()
	text, err := b.redis.Get("{limiter}:value")
	require.NoError(b, err)
	value, err := strconv.ParseInt(text, 10, 64)
	require.NoError(b, err)
	rate, err := strconv.ParseInt(b.config().rate, 10, 64)
	require.NoError(b, err)
	require.NoError(b, b.redis.Set("{limiter}:value", strconv.FormatInt(min(rate, value+permits), 10)))
}

// TestDrift_LargeSetChangesWhileCounted_NothingIsRaised: while a set of several pages is counted over several calls, other
// clients add and remove grants among those already counted. The count may end late, and it never frees permits that are
// taken.
func TestDrift_LargeSetChangesWhileCounted_NothingIsRaised(t *testing.T) {
	const rate, members = 1_000_000, 1000
	for name, change := range map[string]func(b *bubble, old *Limiter){
		"none":                             func(*bubble, *Limiter) {},
		"a grant of a client that is late": func(b *bubble, old *Limiter) { b.take(old, 5000) },
		"a refund of a counted grant": func(b *bubble, old *Limiter) {
			scores, err := b.redis.SortedSet("{limiter}:permits")
			require.NoError(b, err)
			newest, at := "", 0.0
			for m, score := range scores {
				if score > at && binary.LittleEndian.Uint32([]byte(m[17:])) == 1 && score < float64(time.Now().UnixMilli()-300) {
					newest, at = m, score
				}
			}
			require.NoError(b, old.giveBack(b.Context(), 1, newest[:17], 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := b.limiter(Rate{Permits: rate, Interval: time.Hour})
				for i := range members {
					b.take(l, 1+int64(i%2)*500) // every other grant is a large one
					pass(time.Millisecond)
				}
				late := New(b.conn, WithClock(func() time.Time { return time.Now().Add(-400 * time.Millisecond) })).Limiter("limiter")
				b.take(late, 1) // it counts, too: its count stays unfinished
				fresh := New(b.conn).Limiter("limiter")
				for range 2 { // one and two pages are counted
					b.take(fresh, 1)
				}
				change(b, late)
				for range 20 {
					b.take(fresh, 1)
					pass(time.Millisecond)
					assert.Zero(b, b.drift())
				}
			})
		})
	}
}
