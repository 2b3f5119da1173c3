package leases_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// A process that holds a lease is stopped, and the limiter deleted meanwhile, so that whatever it
// grants afterwards was leased before. That ends when the lease does, whenever the process goes on.
func TestLease_ProcessStopped_EndsInTime(t *testing.T) {
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

			r := reportOf(t, p)
			require.Contains(t, r.Error, "not initialized")
			var late time.Duration
			uses := 0
			for _, g := range r.Grants {
				if g.Start.After(resumed) {
					uses++
					late = g.Start.Sub(stop)
				}
			}
			t.Logf("%d uses after it went on, the last of them %v after it was stopped", uses, late)
			// The lease began before the process was stopped.
			require.LessOrEqual(t, late, leased)
			after += uses
		})
	}
	require.Positive(t, after, "no process held a lease when it went on, so this has shown nothing")
}

// A process that dies with leases costs what it had leased until the window has passed, and leaves
// nothing else.
func TestLease_ProcessKilled_PermitsReturn(t *testing.T) {
	server := servers.Single(t)
	redis := servers.Connect(t, single(server.Addr()))
	for range 3 {
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
}

// permits is how many permits were certainly granted from a moment on and before another one.
func permits(grants []ledger.Grant, from, to time.Time) (sum int64) {
	for _, g := range grants {
		if !g.Start.Before(from) && g.End.Before(to) {
			sum += g.Permits
		}
	}
	return sum
}
