package oracle_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// takesOver acquires until the limiter grants again after a failover, which may have lost what the
// old master had not yet passed on.
func takesOver(t *testing.T, l *oracle.Limiter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		granted, err := l.TryAcquire(ctx, 1)
		if err == nil {
			require.True(t, granted)
			return
		}
		require.NoError(t, ctx.Err(), "no call has worked since the failover, the last one: %v", err)
		time.Sleep(100 * time.Millisecond)
	}
}

// failoverVersions returns the releases of REDISSON_VERSIONS, otherwise the newest one: a failover
// takes seconds, and all releases take it alike.
func failoverVersions() []string {
	if os.Getenv("REDISSON_VERSIONS") == "" {
		return []string{"4.7.0"}
	}
	return oracle.VersionsToTest()
}

func TestRedisson_ClusterFailover_GrantsAgain(t *testing.T) {
	c := servers.NewCluster(t)
	for _, version := range failoverVersions() {
		t.Run(version, func(t *testing.T) {
			r := oracle.Start(t, version, oracle.Cluster(c.Addrs()...), oracle.WithTimeout(time.Second))
			l := r.Limiter("c-" + version)
			_, err := l.TrySetRate(t.Context(), oracle.Rate{Permits: 100, Interval: time.Hour})
			require.NoError(t, err)
			require.NoError(t, l.Acquire(t.Context(), 10))
			free, err := l.AvailablePermits(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 90, free)

			slot, err := c.SlotOf(t.Context(), l.Name())
			require.NoError(t, err)
			master, err := c.MasterOf(t.Context(), slot)
			require.NoError(t, err)
			require.Equal(t, "100", hash(t, master, l.Name())["rate"])

			require.NoError(t, master.Kill())
			takesOver(t, l)
			require.NoError(t, master.Restart())
			require.NoError(t, c.AwaitHealthy(t.Context()))
		})
	}
}

func TestRedisson_SentinelFailover_GrantsAgain(t *testing.T) {
	s := servers.NewSentinel(t)
	for _, version := range failoverVersions() {
		t.Run(version, func(t *testing.T) {
			r := oracle.Start(t, version, oracle.Sentinel(s.MasterName(), s.Addrs()...),
				oracle.WithTimeout(time.Second))
			l := r.Limiter("s-" + version)
			_, err := l.TrySetRate(t.Context(), oracle.Rate{Permits: 100, Interval: time.Hour})
			require.NoError(t, err)
			require.NoError(t, l.Acquire(t.Context(), 10))

			master, err := s.Master(t.Context())
			require.NoError(t, err)
			require.Equal(t, "100", hash(t, master, l.Name())["rate"])

			require.NoError(t, master.Kill())
			takesOver(t, l)
			require.NoError(t, master.Restart())
			require.NoError(t, s.AwaitHealthy(t.Context()))
		})
	}
}
