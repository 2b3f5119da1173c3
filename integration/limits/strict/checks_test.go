package strict_test

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
)

// The checks return by how many permits the fullest window, or another bound of a policy, exceeds
// its limit. Above 0 too many permits were granted; at -1 and below, the check would not have seen
// one more. Each grant is compared with the policy that granted it.

// limited returns grants with the limit of a policy.
func limited(grants []grant, permits int64) []grant {
	all := slices.Clone(grants)
	for i := range all {
		all[i].limit = permits
	}
	return all
}

// inAnyInterval checks every interval, to the millisecond, that ends with a grant. The grants are
// in the order of Redis.
func inAnyInterval(grants []grant, interval time.Duration) int64 {
	worst, held, oldest := int64(math.MinInt64), int64(0), 0
	for _, g := range grants {
		held += g.permits
		for grants[oldest].lo/1000 <= g.lo/1000-interval.Milliseconds() {
			held -= grants[oldest].permits
			oldest++
		}
		worst = max(worst, held-g.limit)
	}
	return worst
}

// inWindows checks windows that begin with a grant, or aligned ones. The grants are in the order of
// Redis.
func inWindows(grants []grant, interval time.Duration, aligned bool) int64 {
	worst, held, end := int64(math.MinInt64), int64(0), int64(0)
	for _, g := range grants {
		millis, length := g.lo/1000, interval.Milliseconds()
		if millis >= end {
			held, end = 0, millis+length
			if aligned {
				end -= millis % length
			}
		}
		held += g.permits
		worst = max(worst, held-g.limit)
	}
	return worst
}

// overStretches checks every time from one grant to another: a bucket grants at most its capacity
// and its refill in that time. A grant counts if it lies completely in the time.
func overStretches(grants []grant, refill int64, interval time.Duration) float64 {
	worst := math.Inf(-1)
	byEnd := slices.SortedStableFunc(slices.Values(grants), func(a, b grant) int { return cmp.Compare(a.hi, b.hi) })
	for _, first := range grants {
		held := int64(0)
		for _, g := range byEnd {
			if g.lo >= first.lo {
				held += g.permits
				// In parts of an interval's refill: whole numbers.
				above := (held-g.limit)*interval.Microseconds() - refill*(g.hi-first.lo)
				worst = max(worst, float64(above)/float64(interval.Microseconds()))
			}
		}
	}
	return worst
}

// paid checks that stored permits or time at the rate pay for all grants but the last one, in every
// stretch. The cost of a grant is rounded down to microseconds, as in Guava. The grants are in the
// order of Redis.
func paid(grants []grant, stored int64, each time.Duration) float64 {
	worst, cost, lowest := math.Inf(-1), int64(0), int64(math.MaxInt64)
	for i, g := range grants {
		due := cost - (g.lo - grants[0].lo)
		if i > 0 {
			worst = max(worst, float64(due-lowest)/float64(each.Microseconds())-float64(stored))
		}
		lowest = min(lowest, due)
		cost += g.permits*each.Microseconds() - 1
	}
	return worst
}

// spaced checks that each grant waits for the cost of the one before it. It returns by how many
// permits a grant was too early.
func spaced(grants []grant, each time.Duration) float64 {
	worst := math.Inf(-1)
	for i, g := range grants[1:] {
		early := grants[i].lo + grants[i].permits*each.Microseconds() - g.lo
		worst = max(worst, float64(early)/float64(each.Microseconds()))
	}
	return worst
}

// inAnyCall checks every interval by the times of the calls, for grants whose order in Redis is
// unknown.
func inAnyCall(grants []grant, interval time.Duration) int64 {
	entries := make([]ledger.Grant, len(grants))
	for i, g := range grants {
		entries[i] = ledger.Grant{Start: time.UnixMicro(g.lo), End: time.UnixMicro(g.hi), Permits: g.permits}
	}
	return ledger.Worst(entries, interval).Permits - grants[0].limit
}

// inUnits checks windows whose beginning a function returns, by the calls that lie completely in
// one.
func inUnits(grants []grant, begin func(time.Time) time.Time) int64 {
	worst, held := int64(math.MinInt64), make(map[time.Time]int64)
	for _, g := range grants {
		unit := begin(time.UnixMicro(g.lo))
		if unit.Equal(begin(time.UnixMicro(g.hi))) {
			held[unit] += g.permits
			worst = max(worst, held[unit]-g.limit)
		}
	}
	return worst
}

// Each check also reports whether a load was too small to show one permit too many.
func TestChecks_OnePermitTooMany_IsFound(t *testing.T) {
	const second = 1_000_000
	grants := func(permits ...int64) (all []grant) { // every 100 ms, of a limit of 3
		for i, n := range permits {
			if n > 0 {
				at := int64(i) * second / 10
				all = append(all, grant{at, at, n, 3})
			}
		}
		return all
	}
	full := grants(2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1)
	over := grants(2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 1, 1)
	few := grants(1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1)
	require.EqualValues(t, 0, inAnyInterval(full, time.Second))
	require.EqualValues(t, 1, inAnyInterval(over, time.Second))
	require.EqualValues(t, -1, inAnyInterval(few, time.Second))
	require.EqualValues(t, 0, inAnyCall(full, time.Second))
	require.EqualValues(t, 1, inAnyCall(over, time.Second))
	require.EqualValues(t, -1, inAnyCall(few, time.Second))
	for _, aligned := range []bool{false, true} {
		require.EqualValues(t, 0, inWindows(full, time.Second, aligned))
		require.EqualValues(t, 1, inWindows(over, time.Second, aligned))
		require.EqualValues(t, -1, inWindows(few, time.Second, aligned))
	}
	require.EqualValues(t, 0, inWindows(grants(0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 3), time.Second, false))
	require.EqualValues(t, 2, inWindows(grants(0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 2, 3), time.Second, false))
	require.EqualValues(t, 0, inWindows(grants(0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 3), time.Second, true))
	seconds := func(at time.Time) time.Time { return at.Truncate(time.Second) }
	require.EqualValues(t, 0, inUnits(full, seconds))
	require.EqualValues(t, 1, inUnits(over, seconds))

	// A capacity of 3, and one every 100 ms.
	require.InDelta(t, 0, overStretches(grants(3, 1, 0, 2), 10, time.Second), 1e-9)
	require.InDelta(t, 1, overStretches(grants(3, 1, 0, 3), 10, time.Second), 1e-9)
	require.InDelta(t, -2, overStretches(grants(1, 1, 1, 1), 10, time.Second), 1e-9)
	// One stored, and one every 100 ms.
	require.InDelta(t, 0, paid(grants(3, 0, 1, 2), 1, time.Second/10), 1e-4)
	require.InDelta(t, 1, paid(grants(3, 1, 1, 2), 1, time.Second/10), 1e-4)
	require.InDelta(t, -1, paid(grants(2, 0, 2), 1, time.Second/10), 1e-4)
	require.InDelta(t, 0, spaced(grants(2, 0, 1, 3), time.Second/10), 1e-9)
	require.InDelta(t, 1, spaced(grants(2, 1, 1, 3), time.Second/10), 1e-9)
}
