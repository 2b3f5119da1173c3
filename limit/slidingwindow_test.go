package limit

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// slidingModel is SlidingWindow.
type slidingModel struct {
	permits, cell, cells int64
	held                 map[int64]int64 // by the number of the cell, above 0
}

// at is the cell of a moment, and the first one that overlaps the interval before it.
func (m *slidingModel) at(now int64) (first, cell int64) {
	cell = now / m.cell
	for i := range m.held {
		cell = max(cell, i)
	}
	return cell - m.cells, cell
}

func (m *slidingModel) taken(now int64) (taken, newest int64) {
	first, _ := m.at(now)
	for i, n := range m.held {
		if i >= first {
			taken, newest = taken+n, max(newest, i)
		}
	}
	return taken, newest
}

func (m *slidingModel) take(now, n int64) bool {
	if n > m.free(now) {
		return false
	}
	m.charge(now, n)
	return true
}

func (m *slidingModel) charge(now, n int64) {
	first, cell := m.at(now)
	for i := range m.held {
		if i < first {
			delete(m.held, i)
		}
	}
	if m.held == nil {
		m.held = make(map[int64]int64)
	}
	m.held[cell] += n
}

func (m *slidingModel) release(now, n int64) {
	taken, _ := m.taken(now)
	if n >= taken {
		if taken > 0 {
			m.held = nil
		}
		return
	}
	first, cell := m.at(now)
	for i := cell; i >= first; i-- {
		back := min(n, m.held[i])
		n -= back
		if m.held[i] -= back; m.held[i] == 0 {
			delete(m.held, i)
		}
	}
}

func (m *slidingModel) free(now int64) int64 {
	taken, _ := m.taken(now)
	return m.permits - taken
}

func (m *slidingModel) wait(now, n int64) int64 {
	need := n - m.free(now)
	first, cell := m.at(now)
	for i := first; need > 0 && i <= cell; i++ {
		if need -= m.held[i]; need <= 0 {
			return (i+1+m.cells)*m.cell - now
		}
	}
	return 0
}

func (m *slidingModel) reset(now int64) int64 {
	taken, newest := m.taken(now)
	if taken == 0 {
		return 0
	}
	return (newest+1+m.cells)*m.cell - now
}

// TestSlidingWindowIsStrict: whatever is asked for and when, no interval sees more than the permits, and a permit is back
// an interval and a cell after it was taken.
func TestSlidingWindowIsStrict(t *testing.T) {
	b := newBench(t)
	policy := SlidingWindow{20, 100 * ms, 5}
	l := New(b.client, "name", policy)
	random := rand.New(rand.NewPCG(5, 6))
	type grant struct{ at, n int64 }
	var grants []grant
	for range steps {
		b.pass(time.Duration(random.Int64N(int64(15 * ms))))
		n := 1 + random.Int64N(10)
		ok, err := l.TryAcquire(t.Context(), n)
		require.NoError(t, err)
		within := func(d time.Duration) (sum int64) {
			for _, g := range grants {
				if g.at > b.now-d.Microseconds() {
					sum += g.n
				}
			}
			return sum
		}
		if ok {
			grants = append(grants, grant{b.now, n})
			require.LessOrEqual(t, within(policy.Interval), policy.Permits)
		} else {
			require.Greater(t, within(policy.Interval+20*ms)+n, policy.Permits)
		}
	}
	assert.Greater(t, len(grants), steps/10)
	assert.Less(t, len(grants), steps*9/10)
}

// TestGivenBackFromItsOwnCell: what comes for callers that had gone goes from the cell of their call, if that is there.
func TestGivenBackFromItsOwnCell(t *testing.T) {
	b := newBench(t)
	l := New(b.client, "name", SlidingWindow{10, time.Second, 10})
	var times []int64
	for range 4 {
		_, err := l.Take(t.Context(), 2)
		require.NoError(t, err)
		times = append(times, b.now)
		b.pass(200 * ms)
	}
	reset := func(at int64) time.Duration { return micros(at - at%1e5 + 11e5 - b.now) }
	want := rratelimiter.Decision{Allowed: true, Limit: 10, Remaining: 3, ResetAfter: reset(times[3])}
	assert.Equal(t, want, b.dated(l, times[1], 1), "a part of a cell")
	assert.Equal(t, want, b.dated(l, times[1]+1e5, 1), "no cell")
	assert.Equal(t, want, b.dated(l, times[1]-1e7, 1), "long ago")
	assert.Equal(t, want, b.dated(l, times[3]+1e7, 1), "later than all")
	want.Remaining = 4
	assert.Equal(t, want, b.dated(l, times[1], 2), "all that is left of it")
	want.Remaining = 5
	assert.Equal(t, want, b.dated(l, times[3], 1), "a part of the newest")
	want.Remaining, want.ResetAfter = 6, reset(times[2])
	assert.Equal(t, want, b.dated(l, times[3], 3), "the newest")
	assert.LessOrEqual(t, b.redis.TTL("{name}:sliding:1000:10"), want.ResetAfter+ms)
	fields, err := b.redis.HKeys("{name}:sliding:1000:10")
	require.NoError(t, err)
	assert.Len(t, fields, 2, "m, and the first cell's")
	refused, err := l.Take(t.Context(), 7)
	require.NoError(t, err)
	assert.Equal(t, reset(times[0]), refused.RetryAfter)
	assert.EqualValues(t, 10, b.dated(l, times[0], 2).Remaining+b.dated(l, times[2], 1000).Remaining-8)
	assert.Empty(t, b.redis.Keys())
	assert.EqualValues(t, 10, b.dated(l, times[2], 1).Remaining)
}

// TestCellsCached: what a denial from memory looks at changes with the cells, also where as much was given back as taken.
func TestCellsCached(t *testing.T) {
	b := newBench(t)
	b.now -= b.now % 1e6
	l := New(b.client, "name", SlidingWindow{10, time.Second, 10})
	take := func(n int64) string {
		ok, err := l.TryAcquire(t.Context(), n)
		require.NoError(t, err)
		require.True(t, ok)
		return b.redis.HGet("{name}:sliding:1000:10", "m")
	}
	take(3)
	b.pass(100 * ms)
	first := take(1)
	require.NoError(t, l.Release(t.Context(), 2))
	assert.NotEqual(t, first, take(2))
}

// TestPermitsOfASlidingWindowChange: more or fewer count at once, with what was taken.
func TestPermitsOfASlidingWindowChange(t *testing.T) {
	for _, policies := range [][3]Policy{
		{SlidingWindow{10, time.Second, 10}, SlidingWindow{5, time.Second, 0}, SlidingWindow{20, time.Second, 10}},
		{SlidingLog{10, time.Second}, SlidingLog{5, time.Second}, SlidingLog{20, time.Second}},
	} {
		b := newBench(t)
		b.now -= b.now % 1e6
		_, err := New(b.client, "name", policies[0]).Take(t.Context(), 7)
		require.NoError(t, err)
		fewer, err := New(b.client, "name", policies[1]).Take(t.Context(), 1)
		require.NoError(t, err)
		assert.False(t, fewer.Allowed)
		assert.Zero(t, fewer.Remaining)
		assert.EqualValues(t, 5, fewer.Limit)
		more, err := New(b.client, "name", policies[2]).Take(t.Context(), 13)
		require.NoError(t, err)
		assert.True(t, more.Allowed)
	}
}

// TestNothingIsReleased of what has left by this clock: another one may be behind it.
func TestNothingIsReleased(t *testing.T) {
	for _, policy := range []Policy{SlidingWindow{10, time.Second, 10}, SlidingLog{10, time.Second}, Calendar{10, Day, nil}} {
		b := newBench(t)
		b.back = true
		l := New(b.client, "name", policy)
		ok, err := l.TryAcquire(t.Context(), 3)
		require.NoError(t, err)
		require.True(t, ok)
		before := b.redis.Dump()
		b.pass(24 * time.Hour)
		b.dated(l, begin, 3)
		b.dated(l, b.now, 3)
		require.NoError(t, l.Release(t.Context(), 3))
		assert.Equal(t, before, b.redis.Dump())
	}
}

func TestCellsThatAreNotOurs(t *testing.T) {
	b := newBench(t)
	policy := SlidingWindow{5, time.Second, 10}
	const key = "{name}:sliding:1000:10"
	cell := b.now / 1e5
	for _, text := range []string{"", "x", "1 2 3", "1 2 3 4 5", "1 3 2 1", "1 2 13 1", "1 2 3 0", "-1 2 3 4", "1 2 3 4 ", "1 2.5 3 4",
		"1 99999999999999999999 99999999999999999999 4", strings.Repeat("9", 400) + " 2 3 4", "1 2 3 " + strings.Repeat("9", 400)} {
		b.redis.HSet(key, "m", text)
		b.foreign(policy, text)
	}
	b.redis.HSet(key, "m", fmt.Sprintf("5 %d %d 1", cell-15, cell-5), fmt.Sprint((cell-13)%11), "x")
	b.foreign(policy, "x")
	b.redis.HSet(key, "field", "value")
	b.foreign(policy, "")
	require.NoError(t, b.redis.Set(key, "x"))
	b.foreign(policy, "string")
}
