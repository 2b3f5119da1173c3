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
)

// logModel is SlidingLog.
type logModel struct {
	permits, interval int64
	entries           [][2]int64 // time and permits
	last              int64      // as far as a clock was seen that changed anything
}

// at is the entries that have not left, and the time as the log knows it.
func (m *logModel) at(now int64) (entries [][2]int64, moment int64) {
	moment = now - now%1000
	if len(m.entries) > 0 {
		moment = max(moment, m.last)
	}
	for _, e := range m.entries {
		if e[0] > moment-m.interval {
			entries = append(entries, e)
		}
	}
	return entries, moment
}

func (m *logModel) take(now, n int64) bool {
	if n > m.free(now) {
		return false
	}
	m.charge(now, n)
	return true
}

func (m *logModel) charge(now, n int64) {
	m.entries, m.last = m.at(now)
	if end := len(m.entries) - 1; end >= 0 && m.entries[end][0] == m.last {
		m.entries[end][1] += n
	} else {
		m.entries = append(m.entries, [2]int64{m.last, n})
	}
}

func (m *logModel) release(now, n int64) {
	entries, moment := m.at(now)
	if len(entries) == 0 {
		return
	}
	m.entries, m.last = entries, moment
	for n > 0 && len(m.entries) > 0 {
		back := min(n, m.entries[0][1])
		n -= back
		if m.entries[0][1] -= back; m.entries[0][1] == 0 {
			m.entries = m.entries[1:]
		}
	}
}

func (m *logModel) free(now int64) int64 {
	free := m.permits
	entries, _ := m.at(now)
	for _, e := range entries {
		free -= e[1]
	}
	return free
}

// wait looks at a page of entries.
func (m *logModel) wait(now, n int64) int64 {
	need := n - m.free(now)
	entries, _ := m.at(now)
	for i, e := range entries {
		if need <= 0 {
			break
		}
		if need -= e[1]; need <= 0 || i == 255 {
			return e[0] + m.interval - now
		}
	}
	return 0
}

func (m *logModel) reset(now int64) int64 {
	if entries, _ := m.at(now); len(entries) > 0 {
		return entries[len(entries)-1][0] + m.interval - now
	}
	return 0
}

// TestReleaseGoesOnWithTheLogsAlone: a release that is more than one call's work gives back the rest where it belongs, once.
func TestReleaseGoesOnWithTheLogsAlone(t *testing.T) {
	b := newBench(t)
	policies := []Policy{SlidingLog{2000, 10 * time.Second}, FixedWindow{2000, 10 * time.Second, false}, SlidingLog{2000, 20 * time.Second}}
	l := New(b.client, "name", policies...)
	for range 600 {
		b.pass(ms)
		ok, err := l.TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.NoError(t, l.Release(t.Context(), 550))
	all, err := l.Peek(t.Context())
	require.NoError(t, err)
	for _, d := range all {
		assert.EqualValues(t, 1950, d.Remaining)
	}
}

// dated tells what a key holds after a release of permits that a caller was granted who had gone, taken at the time now.
func (b *bench) dated(l *Limiter, at, permits int64) rratelimiter.Decision {
	b.Helper()
	require.NoError(b, l.releaseOf(b.Context(), l.members, permits, []string{fmt.Sprint(at)}))
	all, err := l.Peek(b.Context())
	require.NoError(b, err)
	return all[0]
}

// TestGivenBackFromItsOwnEntry: what comes for callers that had gone goes from the entry of their call, if that is there.
func TestGivenBackFromItsOwnEntry(t *testing.T) {
	b := newBench(t)
	l := New(b.client, "name", SlidingLog{10, time.Second})
	first := b.now
	var times []int64
	for range 4 {
		_, err := l.Take(t.Context(), 2)
		require.NoError(t, err)
		times = append(times, b.now)
		b.pass(100 * ms)
	}
	reset := func(at int64) time.Duration { return micros(at - at%1000 + 1e6 - b.now) }
	want := rratelimiter.Decision{Allowed: true, Limit: 10, Remaining: 3, ResetAfter: reset(times[3])}
	assert.Equal(t, want, b.dated(l, times[1], 1), "a part of an entry")
	assert.Equal(t, want, b.dated(l, times[1]+1000, 1), "no entry")
	want.Remaining = 4
	assert.Equal(t, want, b.dated(l, times[1], 2), "all that is left of it")
	held, err := b.redis.List("{name}:log:1000")
	require.NoError(t, err)
	assert.Len(t, held, 3)
	want.Remaining = 5
	assert.Equal(t, want, b.dated(l, times[3], 1), "a part of the newest")
	want.Remaining, want.ResetAfter = 6, reset(times[2])
	assert.Equal(t, want, b.dated(l, times[3], 1), "the newest")
	assert.LessOrEqual(t, b.redis.TTL("{name}:log:1000"), want.ResetAfter+ms)
	refused, err := l.Take(t.Context(), 7)
	require.NoError(t, err)
	assert.Equal(t, reset(first), refused.RetryAfter)
	// The first has left, and is there still.
	b.pass(600 * ms)
	assert.EqualValues(t, 8, b.dated(l, first, 2).Remaining)
	assert.EqualValues(t, 10, b.dated(l, times[2], 1000).Remaining)
	assert.Empty(t, b.redis.Keys())
	assert.EqualValues(t, 10, b.dated(l, times[2], 1).Remaining)
}

// foreign says that every call fails with a *StateError that tells a text, and changes nothing.
func (b *bench) foreign(policy Policy, text string) {
	b.Helper()
	before := b.redis.Dump()
	l := New(b.client, "name", policy)
	_, err := l.Take(b.Context(), 1)
	var state *rratelimiter.StateError
	require.ErrorAs(b, err, &state, text)
	assert.Equal(b, rratelimiter.StateError{Key: l.keys[0], Value: text}, *state)
	require.ErrorAs(b, l.Release(b.Context(), 1), &state, text)
	_, err = l.Charge(b.Context(), 1)
	require.ErrorAs(b, err, &state, text)
	_, err = l.Peek(b.Context())
	require.ErrorAs(b, err, &state, text)
	assert.Equal(b, before, b.redis.Dump(), text)
	b.redis.FlushAll()
}

func TestLogThatIsNotOurs(t *testing.T) {
	b := newBench(t)
	policy := SlidingLog{5, time.Second}
	const key = "{name}:log:1000"
	now := b.now / 1000
	for _, head := range []string{"", "x", "1 2 3", "1 2 3 4 5", "-1 2 3 4", "1 2.5 3 4", "1 2 3 4 ", "1 99999999999999999999 3 4", "1 2 3 99999999999999999999",
		strings.Repeat("9", 400) + " 2 3 4", "1 2 " + strings.Repeat("9", 400) + " 4"} {
		b.redis.Push(key, head)
		b.foreign(policy, head)
	}
	for _, entry := range []string{"", "x", "1", "1 2 3", "-1 2", "1 2 "} {
		b.redis.Push(key, fmt.Sprintf("5 %d 1 0", now), entry)
		b.foreign(policy, entry)
		b.redis.Push(key, slices.Concat([]string{fmt.Sprintf("50 %d 1 0", now)}, slices.Repeat([]string{"1 1"}, 7), []string{entry})...)
		b.foreign(policy, entry)
	}
	require.NoError(t, b.redis.Set(key, "x"))
	b.foreign(policy, "string")
}

// TestReturnsEarliest: who wants more than there is waits an interval more for each time that all have to come back.
func TestReturnsEarliest(t *testing.T) {
	o, ok := newReturns(10, time.Second, time.Second, []int64{7, 900_000, 100_000, 3, 900_000, 4})
	require.True(t, ok)
	for permits, want := range map[int64]time.Duration{
		3: 0, 4: 100 * ms, 6: 100 * ms, 7: 900 * ms, 10: 900 * ms, 13: time.Second, 14: 1100 * ms, 20: 1900 * ms, 1004: 100100 * ms,
		math.MaxInt64: engine.Never,
	} {
		var wanted engine.Total
		wanted.Add(permits)
		assert.Equal(t, want, o.earliest(wanted), permits)
	}
	for _, told := range [][]int64{{}, {1}, {1, 2, 3}} {
		_, ok = newReturns(10, time.Second, time.Second, told)
		assert.False(t, ok)
	}
}
