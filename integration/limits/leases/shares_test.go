package leases_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/suite"
)

// busy takes all permits that come back; idle takes 50 permits a second.
var (
	busy = task{}
	idle = task{Often: 1, Pause: 20 * time.Millisecond}
)

// The lease of a process that is almost idle keeps no permits from a busy process. The median
// interval counts, because both processes miss intervals while the machine does not run them.
func TestLease_BusyBesideIdle_BusyGetsTheRate(t *testing.T) {
	const interval = 500 * time.Millisecond
	granted := shares(t, interval, busy, idle)
	t.Logf("granted in each interval: busy %v, idle %v", granted[0], granted[1])
	require.NotZero(t, slices.Max(granted[1]))
	slices.Sort(granted[0])
	require.GreaterOrEqual(t, 100*granted[0][len(granted[0])/2], 90*permitsIn(interval))
}

// Two processes that want more than the rate get similar shares. Intervals count in which the
// machine ran both.
func TestLease_EqualDemand_SimilarShares(t *testing.T) {
	for name, demand := range map[string]task{"without pauses": busy,
		"three times the rate": {Often: 12, Pause: time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			granted := shares(t, 100*time.Millisecond, demand, demand)
			t.Logf("granted in each interval: %v and %v", granted[0], granted[1])
			var first, both int64
			counted := 0
			for i := range granted[0] {
				if granted[0][i] > 0 && granted[1][i] > 0 {
					first, both = first+granted[0][i], both+granted[0][i]+granted[1][i]
					counted++
				}
			}
			require.GreaterOrEqual(t, counted, len(granted[0])/2, "one process got all permits of most intervals")
			require.InDelta(t, 50, 100*float64(first)/float64(both), 10, "the share of the first process in percent")
		})
	}
}

// permitsIn is the rate of shares.
func permitsIn(interval time.Duration) int64 { return 4 * interval.Milliseconds() }

// shares runs each task in a process for three seconds and returns the permits that each got in
// each interval.
func shares(t *testing.T, interval time.Duration, tasks ...task) (granted [][]int64) {
	t.Helper()
	const duration = 3 * time.Second
	server := servers.Single(t)
	setRate(t, servers.Connect(t, single(server.Addr())),
		rratelimiter.Rate{Permits: permitsIn(interval), Interval: interval})
	begin := time.Now().Add(500 * time.Millisecond)
	end := begin.Add(duration)
	var members []*suite.Process
	for _, spec := range tasks {
		spec.Addr, spec.Lease, spec.Begin, spec.End = server.Addr(), 10*time.Millisecond, begin, end
		members = append(members, startMember(t, spec))
	}
	for _, p := range members {
		r := reportOf(t, p)
		require.Empty(t, r.Error)
		var each []int64
		for from := begin; from.Before(end); from = from.Add(interval) {
			each = append(each, permits(r.Grants, from, from.Add(interval)))
		}
		granted = append(granted, each)
	}
	return granted
}
