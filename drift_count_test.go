package rratelimiter

import (
	"encoding/binary"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// drift returns value + permits in the set - rate.
func (b *bubble) drift() int64 {
	b.Helper()
	text, err := b.Redis.Get("{limiter}:value")
	require.NoError(b, err)
	value, err := strconv.ParseInt(text, 10, 64)
	require.NoError(b, err)
	rate, err := strconv.ParseInt(b.config().rate, 10, 64)
	require.NoError(b, err)
	return value + b.sum() - rate
}

// sum returns the permits in the set.
func (b *bubble) sum() (sum int64) {
	b.Helper()
	if b.Redis.Exists("{limiter}:permits") {
		members, err := b.Redis.ZMembers("{limiter}:permits")
		require.NoError(b, err)
		for _, m := range members {
			sum += int64(binary.LittleEndian.Uint32([]byte(m[len(m)-4:])))
		}
	}
	return sum
}

// redissonReleases raises the value and leaves the grants.
func (b *bubble) redissonReleases(permits int64) {
	b.Helper()
	text, err := b.Redis.Get("{limiter}:value")
	require.NoError(b, err)
	value, err := strconv.ParseInt(text, 10, 64)
	require.NoError(b, err)
	rate, err := strconv.ParseInt(b.config().rate, 10, 64)
	require.NoError(b, err)
	require.NoError(b, b.Redis.Set("{limiter}:value", strconv.FormatInt(min(rate, value+permits), 10)))
}

// refundCounted refunds a grant of so many permits that is some hundred milliseconds old.
func (b *bubble) refundCounted(l *Limiter, permits int64) {
	b.Helper()
	scores, err := b.Redis.SortedSet("{limiter}:permits")
	require.NoError(b, err)
	newest, latest := "", 0.0
	for m, score := range scores {
		held := int64(binary.LittleEndian.Uint32([]byte(m[17:])))
		if score > latest && held == permits && score < float64(time.Now().UnixMilli()-300) {
			newest, latest = m, score
		}
	}
	require.NoError(b, l.wire.giveBack(b.Context(), permits, newest[:17], permits))
}

// TestDrift_LargeSetChangesWhileCounted_NothingIsRaised: while a set of several pages is counted over several calls, other
// clients add and remove grants among those already counted. The count may end late, and it never frees permits that are
// taken.
func TestDrift_LargeSetChangesWhileCounted_NothingIsRaised(t *testing.T) {
	const rate, members = 1_000_000, 1000
	for name, change := range map[string]func(b *bubble, old *Limiter){
		"none":                              func(*bubble, *Limiter) {},
		"a grant of a client that is late":  func(b *bubble, old *Limiter) { b.Take(old, 5000) },
		"a refund of a small counted grant": func(b *bubble, old *Limiter) { b.refundCounted(old, 1) },
		"a refund of a large counted grant": func(b *bubble, old *Limiter) { b.refundCounted(old, 501) },
		"a late grant in place of a refunded one": func(b *bubble, old *Limiter) {
			b.refundCounted(old, 1)
			b.Take(old, 5000)
		},
		"a small late grant in place of a large one": func(b *bubble, old *Limiter) {
			b.refundCounted(old, 501)
			b.Take(old, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := b.limiter(Rate{Permits: rate, Interval: time.Hour})
				for i := range members {
					b.Take(l, 1+int64(i%2)*500) // every other grant is a large one
					pass(time.Millisecond)
				}
				late := New(b.Conn, WithClock(func() time.Time { return time.Now().Add(-400 * time.Millisecond) })).Limiter("limiter")
				b.Take(late, 1) // it counts, too: its count stays unfinished
				fresh := New(b.Conn).Limiter("limiter")
				for range 2 { // one and two pages are counted
					b.Take(fresh, 1)
				}
				change(b, late)
				for range 20 {
					b.Take(fresh, 1)
					pass(time.Millisecond)
					assert.LessOrEqual(b, b.drift(), int64(0))
				}
				pass(time.Hour - time.Hour/retryPart)
				for range 20 {
					b.Take(fresh, 1)
				}
				assert.Zero(b, b.drift())
			})
		})
	}
}

// TestDrift_ReleasedGrantsExpireFirst_ReleaseStays: Redisson released 8 of 10 permits, and 4 of them expire before the
// next call: their expiry returns nothing.
func TestDrift_ReleasedGrantsExpireFirst_ReleaseStays(t *testing.T) {
	for _, counted := range []bool{false, true} { // the limiter was counted a moment before
		inBubble(t, func(b *bubble) {
			l := b.limiter(Rate{Permits: 10, Interval: 10 * second})
			for _, n := range []int64{4, 4, 2} {
				b.Take(l, n)
				pass(second)
			}
			b.redissonReleases(8)
			pass(7 * second)
			if !counted {
				l = New(b.Conn).Limiter("limiter")
			}
			b.Take(l, 8)
			b.Full(l, 1)
			assert.Zero(b, b.drift())
		})
	}
}

// counted runs the acquire script for permits, and returns what it reports about the count.
func (b *bubble) counted(l *Limiter, hinted bool, permits int64, cursor string) string {
	b.Helper()
	rate, interval := b.config().rate, b.config().interval
	if !hinted {
		rate, interval = "", ""
	}
	m := string(l.wire.client.appendMember(nil, permits, false))
	reply, err := b.run(acquireScript, l, b.nowText(), m, rate, interval, strconv.FormatInt(permits, 10), "", "dw", "", cursor)
	require.NoError(b, err)
	parts, err := reply.ToArray()
	require.NoError(b, err)
	if len(parts) < 8 {
		return texts(b, reply, nil)
	}
	text, err := parts[7].ToString()
	require.NoError(b, err)
	return text
}

// TestDrift_CallThatCannotCount_PassesItOn: a call that leaves before the count reports that the next call is to count.
func TestDrift_CallThatCannotCount_PassesItOn(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 1000, Interval: 10 * second})
		for range 900 {
			b.Take(l, 1)
			pass(time.Millisecond)
		}
		assert.Equal(b, "due", b.counted(l, false, 1001, ""), "above the rate")
		assert.Equal(b, "cut 7 9", b.counted(l, true, 1001, "cut 7 9"), "above the rate")
		assert.Equal(b, "", b.counted(l, true, 1001, ""))

		pass(10*second - 300*time.Millisecond) // 600 have expired
		assert.Equal(b, "due", b.counted(l, false, 1, ""), "more expired grants than a page")
		assert.Equal(b, "cut 7 9", b.counted(l, true, 1, "cut 7 9"))
		assert.Zero(b, b.drift())
	})
}

// count runs calls for one permit each from a cursor on, until the count has ended or is to be confirmed, and grants are
// left to be removed.
func (b *bubble) count(l *Limiter, cursor string) string {
	b.Helper()
	for {
		cursor = b.counted(l, cursor != "", 1, cursor)
		pass(time.Millisecond)
		if cursor == "done" || cursor == "again" || strings.HasPrefix(cursor, "found") || strings.HasPrefix(cursor, "cut") {
			return cursor
		}
	}
}

// TestDrift_GrantsAreRemovedOverSeveralCalls_CountFollows: the value is right from the first of these calls on, and only
// grants that are older than that call are removed.
func TestDrift_GrantsAreRemovedOverSeveralCalls_CountFollows(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 1500, Interval: time.Hour})
		for range 1500 {
			b.Take(l, 1)
			pass(time.Millisecond)
		}
		b.redissonReleases(700)
		found := b.count(l, "")
		assert.Equal(b, "found 700", found)
		assert.EqualValues(b, 700, b.drift(), "nothing changes before it is confirmed")
		cut := b.count(l, found)
		assert.Regexp(b, "^cut 444 9466848[0-9]*$", cut)
		assert.Zero(b, b.drift())
		assert.Equal(b, "done", b.count(l, ""), "another client finds no drift")
		cut = b.counted(l, true, 1, cut)
		assert.Regexp(b, "^cut 188 9466848[0-9]*$", cut)
		assert.Zero(b, b.drift())
		assert.Equal(b, "again", b.counted(l, true, 1, cut))
		assert.Zero(b, b.drift())
		assert.Equal(b, "done", b.count(l, ""))

		old := "cut 100 " + strconv.FormatInt(time.Now().Add(-time.Minute).UnixMilli(), 10)
		before := b.Stored("{limiter}:value")
		assert.Equal(b, "again", b.counted(l, true, 1, old), "no grant is as old")
		assert.Equal(b, before-1, b.Stored("{limiter}:value"))
	})
}

// TestDrift_ValueLostBeforeGrantsAreRemoved_IsCounted: the value is gone when a call is to remove grants.
func TestDrift_ValueLostBeforeGrantsAreRemoved_IsCounted(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 2000, Interval: time.Hour})
		for range 1500 {
			b.Take(l, 1)
			pass(time.Millisecond)
		}
		l.wire.hint().learn(time.Now().UnixMilli(), 2000, time.Hour.Milliseconds(), false, "cut 444 946684800000")
		b.Redis.Del("{limiter}:value")
		b.Take(l, 1)
		assert.Zero(b, b.drift())
		assert.EqualValues(b, 499, b.Stored("{limiter}:value"))
	})
}

// TestDrift_RefundWhileCounted_TakesNoGrantInUse: a refund shrinks a grant that is counted already. The count finds an excess
// that there is not, and no grant that is in use leaves the set for it.
func TestDrift_RefundWhileCounted_TakesNoGrantInUse(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 3000, Interval: time.Hour})
		for range 600 {
			b.Take(l, 1)
			pass(time.Millisecond)
		}
		b.granted(l, "a", 600)
		for range 600 {
			b.Take(l, 1)
			pass(time.Millisecond)
		}
		cursor := ""
		for range 3 {
			cursor = b.counted(l, cursor != "", 1, cursor)
			pass(time.Millisecond)
		}
		require.NoError(b, b.giveBack(l, "a", 599, 600))
		cursor = b.count(l, cursor)
		assert.Equal(b, "found 599", cursor)
		assert.Equal(b, "done", b.count(l, cursor))
		assert.Zero(b, b.drift())
	})
}
