package leases_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/faults/outages"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// A process that holds a lease is stopped, and the limiter deleted meanwhile, so that later grants
// come from the lease. These end with the lease, whenever the process resumes.
func TestLease_ProcessStopped_EndsInTime(t *testing.T) {
	t.Parallel()
	const leased = 400 * time.Millisecond
	server := servers.Single(t)
	redis := servers.Connect(t, single(server.Addr()))
	after := 0
	for _, stopped := range []time.Duration{100, 390, 400, 600} {
		stopped *= time.Millisecond
		t.Run(fmt.Sprint(stopped), func(t *testing.T) {
			l := setRate(t, redis, rratelimiter.Rate{Permits: 100_000_000, Interval: time.Minute})
			p := startMember(t, task{Addr: server.Addr(), Lease: leased, End: time.Now().Add(20 * time.Second),
				Often: 50, Pause: time.Millisecond, Warm: 10_000})
			require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
			stop := time.Now()
			_, err := l.Delete(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Until(stop.Add(stopped)))
			resumed := time.Now()
			require.NoError(t, p.Process.Signal(syscall.SIGCONT))

			r := p.report(t)
			require.Contains(t, r.Error, "not initialized")
			var late time.Duration
			uses := 0
			for _, g := range r.Grants {
				if g.Start.After(resumed) {
					uses++
					late = g.Start.Sub(stop)
				}
			}
			t.Logf("%d uses after it resumed, the last of them %v after it was stopped", uses, late)
			// The lease began before the process was stopped.
			require.LessOrEqual(t, late, leased)
			after += uses
		})
	}
	require.Positive(t, after, "no process held a lease when it resumed")
}

// The leased permits of a killed process return after the window, and no key remains.
func TestLease_ProcessKilled_PermitsReturn(t *testing.T) {
	t.Parallel()
	const interval = 2 * time.Second
	server := servers.Single(t)
	redis := servers.Connect(t, single(server.Addr()))
	l := setRate(t, redis, rratelimiter.Rate{Permits: 1_000_000, Interval: interval})
	p := startMember(t, task{Addr: server.Addr(), Lease: lease, End: time.Now().Add(10 * time.Second), Often: 50,
		Pause: time.Millisecond, Warm: 1000})
	require.NoError(t, p.Process.Kill())
	require.Error(t, p.Wait())
	killed := time.Now()
	free, err := l.AvailablePermits(t.Context())
	require.NoError(t, err)
	require.Less(t, free, int64(1_000_000))
	time.Sleep(time.Until(killed.Add(interval + lease)))
	free, err = l.AvailablePermits(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1_000_000, free)
	_, err = l.Delete(t.Context())
	require.NoError(t, err)
	left, err := redis.Do(t.Context(), redis.B().Dbsize().Build()).AsInt64()
	require.NoError(t, err)
	require.Zero(t, left, "keys")
}

// permits returns the permits of grants whose calls lie between two times.
func permits(grants []ledger.Grant, from, to time.Time) (sum int64) {
	for _, g := range grants {
		if !g.Start.Before(from) && g.End.Before(to) {
			sum += g.Permits
		}
	}
	return sum
}

// Java lowers the rate while a Go process holds a lease of the old rate. Uses beyond the new rate
// come from the lease, and end with it.
func TestLease_JavaSetsRate_BoundsTheExcess(t *testing.T) {
	t.Parallel()
	const before, after = 20_000, 50
	server := servers.Single(t)
	redis := servers.Connect(t, single(server.Addr()))
	java := oracle.Start(t, "4.7.0", outages.OnSingle(server).Redisson).Limiter(name)
	for _, keep := range []bool{false, true} {
		l := setRate(t, redis, rratelimiter.Rate{Permits: before, Interval: interval})
		p := startMember(t, task{Addr: server.Addr(), Lease: lease, End: time.Now().Add(2 * interval), Often: 20,
			Pause: time.Millisecond, Warm: 1000})
		called := time.Now()
		require.NoError(t, java.SetRateArgs(t.Context(), oracle.Rate{Permits: after, Interval: interval}, keep))
		set := time.Now()
		r := p.report(t)
		require.Empty(t, r.Error)

		span := permits(r.Grants, called.Add(-lease), called)
		beyond := permits(r.Grants, set, set.Add(lease)) - after
		late := permits(r.Grants, set.Add(lease), set.Add(interval))
		t.Logf("keepState %t: from %d to %d permits in %v; the lease's span before held %d uses, that after %d beyond "+
			"the new rate, the rest of the interval %d",
			keep, before, after, interval, span, beyond, late)
		if !keep { // with keepState Redisson forgets the excess and grants more, also without leases
			require.LessOrEqual(t, late, int64(after), "once the leases have ended")
		}
		// A lease covers the requests of a span, and up to two overlap.
		require.LessOrEqual(t, beyond, 4*span)
		require.Positive(t, permits(r.Grants, set, set.Add(interval)), "no use after the change")
		_, err := l.Delete(t.Context())
		require.NoError(t, err)
	}
}
