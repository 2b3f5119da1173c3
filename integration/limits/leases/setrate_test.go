package leases_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/faults/outages"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// Java lowers the rate while a Go process holds a lease of the old one. What is used beyond the new
// rate is what was leased, and used before the lease's end.
func TestLease_JavaSetsRate_BoundsTheExcess(t *testing.T) {
	const before, after = 20_000, 50
	server := servers.Single(t)
	redis := servers.Connect(t, single(server.Addr()))
	java := oracle.Start(t, "4.7.0", outages.OnSingle(server).Redisson).Limiter(name)
	for _, keep := range []bool{false, true} {
		l := setRate(t, redis, rratelimiter.Rate{Permits: before, Interval: interval})
		p := startMember(t, task{Addr: server.Addr(), Lease: lease, End: time.Now().Add(2 * interval), Often: 20,
			Pause: time.Millisecond, Warm: 1000})
		asked := time.Now()
		require.NoError(t, java.SetRateArgs(t.Context(), oracle.Rate{Permits: after, Interval: interval}, keep))
		set := time.Now()
		r := reportOf(t, p)
		require.Empty(t, r.Error)

		span := permits(r.Grants, asked.Add(-lease), asked)
		beyond := permits(r.Grants, set, set.Add(lease)) - after
		late := permits(r.Grants, set.Add(lease), set.Add(interval))
		t.Logf("keepState %t: from %d to %d permits in %v; the lease's span before held %d uses, that after %d beyond "+
			"the new rate, the rest of the interval %d",
			keep, before, after, interval, span, beyond, late)
		if !keep { // with keepState Redisson forgets what was taken beyond the new rate, and lets more through, leases or not
			require.LessOrEqual(t, late, int64(after), "once the leases have ended")
		}
		// A lease is of what was asked for in a span, and up to two overlap.
		require.LessOrEqual(t, beyond, 4*span)
		taken := permits(r.Grants, set, set.Add(interval))
		require.Positive(t, taken, "the lease went on")
		_, err := l.Delete(t.Context())
		require.NoError(t, err)
	}
}
