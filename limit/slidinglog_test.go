package limit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/policymodel"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// TestReturnsForecast_Waits_AreThoseOfTheReturns: a request for more permits than the limit waits an
// interval more for each time that all return.
func TestReturnsForecast_Waits_AreThoseOfTheReturns(t *testing.T) {
	r := numbersReply(t, 7, 900_000, 100_000, 3, 900_000, 4)
	o := returnsOf(10, time.Second, r)
	require.True(t, r.Ended())
	for permits, want := range map[int64]time.Duration{
		3: 0, 4: 100 * time.Millisecond, 6: 100 * time.Millisecond, 7: 900 * time.Millisecond,
		10: 900 * time.Millisecond, 13: time.Second, 14: 1100 * time.Millisecond, 20: 1900 * time.Millisecond,
		1004:          100100 * time.Millisecond,
		math.MaxInt64: engine.Never,
	} {
		assert.Equal(t, want, o.Earliest(0, permits), permits)
	}
	for permits, want := range map[int64]time.Duration{3: 0, 4: 100 * time.Millisecond, 6: 100 * time.Millisecond,
		10: 900 * time.Millisecond, 11: 900 * time.Millisecond} {
		after, known := o.wait(permits)
		assert.Equal(t, want, after, permits)
		assert.Equal(t, permits <= 10, known, permits)
	}
	full := returnsOf(10, time.Second, numbersReply(t, 10, 900_000))
	_, known := full.wait(1)
	assert.False(t, known, "the script reported no returns")
	for _, numbers := range [][]int64{{}, {1}, {1, 2, 3}} {
		r := numbersReply(t, numbers...)
		returnsOf(10, time.Second, r)
		assert.False(t, r.Ended())
	}
}

// numbersReply returns a reply with some numbers.
func numbersReply(t *testing.T, numbers ...int64) *redisx.Reply {
	text := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(numbers)), ","), "[]")
	client, ok := inside.Of[inside.Client](newClocked(t).client)
	require.True(t, ok)
	call := redisx.Call{Script: redisx.NewScript("return {" + text + "}"), Keys: []string{"k"}}
	message, err := call.Exec(t.Context(), client.Engine.Redis(), nil)
	require.NoError(t, err)
	r := redisx.ReadReply(message)
	return &r
}

// fillLog writes a log with an entry of so many permits in each millisecond, and returns the receipts of
// these grants. The totals begin behind one.
func (f *clocked) fillLog(key string, total uint64, permits []int64) (receipts []grant) {
	for _, n := range permits {
		f.advance(time.Millisecond)
		total = (total + uint64(n)) % (1 << 53)
		entry := fmt.Sprintf("a %d 0 %d %d", f.now/1000, n, total)
		f.redis.Push(key, entry)
		receipts = append(receipts, grant{receipts: []string{entry}})
	}
	return receipts
}

// TestSlidingLog_ManyEntries_MatchesTheModel: in logs of about a page, all expired and all released
// entries are removed.
func TestSlidingLog_ManyEntries_MatchesTheModel(t *testing.T) {
	const key = "{name}:log:10000"
	lengths := []int64{1, 2, 7, 8, 9, 256, 257}
	if redistest.Deep(0, 1) == 1 {
		lengths = append(lengths, 6, 10, 255, 258, 600)
	}
	for _, entries := range lengths {
		f := newClocked(t)
		policy := SlidingLog{3 * entries, 10 * time.Second}
		l := New(f.client, "name", policy)
		var m *policymodel.SlidingLog
		fill := func() {
			require.NoError(t, l.Reset(t.Context()))
			m = &policymodel.SlidingLog{Permits: policy.Permits, Interval: 1e7}
			for i := range entries {
				require.True(t, policymodel.Take(m, f.now+1000*(i+1), 2))
			}
			// The totals pass 2^53 and begin at 0 again.
			f.fillLog(key, uint64(1<<53-entries), slices.Repeat([]int64{2}, int(entries)))
			f.redis.SetTTL(key, 10*time.Second)
		}
		take := func(n int64) {
			t.Helper()
			got := redistest.Result(t, l.Take, n)
			ok := policymodel.Take(m, f.now, n)
			require.Equal(t, decision(m, policy.Permits, f.now, n, ok), got, entries)
		}
		length := func() int {
			all, err := f.redis.List(key)
			require.NoError(t, err)
			return len(all)
		}
		fill() // Release removes the oldest.
		take(policy.Permits)
		for _, n := range []int64{entries / 3, 2*entries - 1 - entries/3} {
			require.NoError(t, l.Release(t.Context(), n))
			m.Release(f.now, n)
			take(m.Free(f.now) + 1)
		}
		require.Equal(t, 1, length())
		// Half of them have expired, then a part of the rest is released.
		fill()
		f.advance(10*time.Second - time.Duration(entries/2)*time.Millisecond)
		for range 2 {
			for _, missing := range []int64{1, 13, 100, 600, 2000} {
				take(min(m.Free(f.now)+missing, policy.Permits))
			}
			require.NoError(t, l.Release(t.Context(), entries/3))
			m.Release(f.now, entries/3)
		}
		// All but the newest have expired.
		fill()
		f.advance(10*time.Second - time.Millisecond)
		take(policy.Permits)
		take(1)
		require.Equal(t, 2, length())
		f.advance(time.Millisecond)
		take(policy.Permits - 1)
		// A call that grants no permits keeps them, for a clock that is behind.
		fill()
		f.advance(10*time.Second - time.Millisecond)
		f.back = true
		take(policy.Permits)
		f.advance(-5 * time.Second)
		take(policy.Permits)
		// A call that grants or releases makes that clock stand still.
		f.advance(5 * time.Second)
		require.NoError(t, l.Release(t.Context(), 1))
		m.Release(f.now, 1)
		f.advance(-5 * time.Second)
		take(policy.Permits)
		take(1)
	}
}

// TestRefund_ManyEntriesSince_ReturnsNothing: a grant that is far from the newest entry stays taken, and
// so do those of others.
func TestRefund_ManyEntriesSince_ReturnsNothing(t *testing.T) {
	f := newClocked(t)
	const entries = 400
	l := New(f.client, "name", SlidingLog{2 * entries, time.Second})
	receipts := f.fillLog("{name}:log:1000", 1<<53-entries, slices.Repeat([]int64{2}, entries)) // the totals begin again
	f.advance(time.Millisecond)
	assert.Zero(t, f.refund(l, receipts[0], 2).Remaining)
	assert.Zero(t, f.refund(l, receipts[entries-257], 2).Remaining)
	other := grant{receipts: slices.Clone(receipts[entries-1].receipts)}
	other.receipts[0] = "other" + other.receipts[0][1:]
	assert.Zero(t, f.refund(l, other, 2).Remaining, "of another state")
	free := int64(0)
	for i := entries - 256; i < entries; i += 25 {
		free++
		assert.Equal(t, free, f.refund(l, receipts[i], 1).Remaining)
		free++
		assert.Equal(t, free, f.refund(l, receipts[i], 5).Remaining, "an entry has no more")
	}
	f.advance(650 * time.Millisecond)
	assert.Equal(t, free+2*51, redistest.Peek(t, l)[0].Remaining, "the first entries have expired")
}

// TestRefund_NewestEntriesAllReturn_OlderStayTaken: those of a page, the newest last.
func TestRefund_NewestEntriesAllReturn_OlderStayTaken(t *testing.T) {
	f := newClocked(t)
	const older, page = 44, 256
	l := New(f.client, "name", SlidingLog{older + page, time.Second})
	counts := slices.Repeat([]int64{1}, older)
	counts = append(append(counts, make([]int64, page-3)...), 1, 1, 1) // those between have been refunded
	receipts := f.fillLog("{name}:log:1000", 0, counts)
	for i, receipt := range receipts[older+page-3:] {
		assert.EqualValues(t, page-3+i+1, f.refund(l, receipt, 1).Remaining)
	}
	f.take(l, page)
	assert.Zero(t, redistest.Peek(t, l)[0].Remaining)
	f.advance(744 * time.Millisecond)
	assert.EqualValues(t, older, redistest.Peek(t, l)[0].Remaining, "the older ones have expired")
}

// TestRefund_LogAndCells_ComesFromItsOwnEntry: if it still exists.
func TestRefund_LogAndCells_ComesFromItsOwnEntry(t *testing.T) {
	for _, test := range []struct {
		policy  Policy
		apart   time.Duration // the entries
		unit    int64         // microseconds of an entry
		counted int64         // microseconds from its begin until its permits return
		expires time.Duration // until the first entry has expired
	}{
		{SlidingLog{10, time.Second}, 100 * time.Millisecond, 1e3, 1e6, 600 * time.Millisecond},
		{SlidingWindow{10, time.Second, 10}, 200 * time.Millisecond, 1e5, 11e5, 300 * time.Millisecond},
	} {
		f, l := clockedLimiter(t, test.policy)
		var times []int64
		var receipts []grant
		for range 4 {
			receipts = append(receipts, f.take(l, 2))
			times = append(times, f.now)
			f.advance(test.apart)
		}
		reset := func(at int64) time.Duration { return micros(at - at%test.unit + test.counted - f.now) }
		want := rratelimiter.Decision{Allowed: true, Limit: 10, Remaining: 3, ResetAfter: reset(times[3])}
		assert.Equal(t, want, f.refund(l, receipts[1], 1), "a part of an entry")
		want.Remaining = 4
		assert.Equal(t, want, f.refund(l, receipts[1], 2), "all that is left of it")
		assert.Equal(t, want, f.refund(l, receipts[1], 2), "nothing is left of it")
		want.Remaining = 5
		assert.Equal(t, want, f.refund(l, receipts[3], 1), "a part of the newest")
		want.Remaining, want.ResetAfter = 6, reset(times[2])
		assert.Equal(t, want, f.refund(l, receipts[3], 3), "the newest")
		if entries, err := f.redis.List(l.protocol.keys[0]); err == nil {
			assert.Len(t, entries, 3, "and an empty one")
		}
		assert.Equal(t, reset(times[0]), redistest.Result(t, l.Take, 7).RetryAfter)
		f.advance(test.expires)
		assert.EqualValues(t, 8, f.refund(l, receipts[0], 2).Remaining)
		assert.EqualValues(t, 10, f.refund(l, receipts[2], 1000).Remaining)
		assert.Empty(t, f.redis.Keys())
		assert.EqualValues(t, 10, f.refund(l, receipts[2], 1).Remaining)
	}
}

// TestRelease_Cells_NewestReturn: the last of those that are left ends the usage.
func TestRelease_Cells_NewestReturn(t *testing.T) {
	f, l := clockedLimiter(t, SlidingWindow{10, time.Second, 10})
	f.set(begin - begin%100_000)
	for range 3 {
		f.take(l, 2)
		f.advance(100 * time.Millisecond)
	}
	require.NoError(t, l.Release(t.Context(), 4))
	want := rratelimiter.Decision{Allowed: true, Limit: 10, Remaining: 8, ResetAfter: 800 * time.Millisecond}
	assert.Equal(t, want, redistest.Peek(t, l)[0])
}
