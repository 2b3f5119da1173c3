package leases_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/servers"
)

// TestShares: of two processes, each with a lease, the busy one is served as if it were alone where the other is all but idle, and both
// alike where both want more than there is.
func TestShares(t *testing.T) {
	const long = 3 * time.Second
	server := servers.Single(t)
	redis := dial(t, single(server.Addr()))
	run := func(interval time.Duration, tasks ...task) (got []int64) {
		setRate(t, redis, rratelimiter.Rate{Permits: 4 * interval.Milliseconds(), Interval: interval})
		begin := time.Now().Add(500 * time.Millisecond)
		var members []*process
		for _, spec := range tasks {
			spec.Addr, spec.Lease, spec.Begin, spec.End = server.Addr(), 10*time.Millisecond, begin, begin.Add(long)
			members = append(members, startMember(t, spec))
		}
		for _, p := range members {
			r := p.report(t)
			require.Empty(t, r.Error)
			got = append(got, permits(r.Grants, begin, begin.Add(long)))
		}
		return got
	}
	busy, idle := task{}, task{Often: 1, Pause: 20 * time.Millisecond}
	onceOf(t, 3, func() bool {
		alone := run(500*time.Millisecond, busy)[0]
		beside := run(500*time.Millisecond, busy, idle)
		share := 100 * float64(beside[0]) / float64(alone)
		t.Logf("alone it was granted %d permits; beside one that wants 50 a second and was granted %d, %d: %.1f %%", alone, beside[1], beside[0], share)
		return share >= 90 && beside[1] > 0
	})
	// Those who ask without a pause take all that comes back at once, and those who ask for thrice the rate, for a while.
	for _, wants := range []task{busy, {Often: 12, Pause: time.Millisecond}} {
		onceOf(t, 3, func() bool {
			alike := run(100*time.Millisecond, wants, wants)
			share := 100 * float64(alike[0]) / float64(alike[0]+alike[1])
			t.Logf("two alike were granted %d and %d, %.1f %% and %.1f %%", alike[0], alike[1], share, 100-share)
			return share >= 40 && share <= 60
		})
	}
}

// onceOf tries again where the machine may have been busy: a process that does not get on for a moment misses a whole interval.
func onceOf(t *testing.T, times int, try func() bool) {
	t.Helper()
	for range times {
		if try() {
			return
		}
	}
	t.Errorf("not once of %d times", times)
}
