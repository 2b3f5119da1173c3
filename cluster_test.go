package rratelimiter

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestCluster_NodesDisagree_CallsTryTenTimesASecond, with a caller and without.
func TestCluster_NodesDisagree_CallsTryTenTimesASecond(t *testing.T) {
	redistest.RunCluster(t, func(c *redistest.Cluster) {
		l := New(c.Conn, WithLease(time.Second)).Limiter("limiter")
		require.NoError(c, l.SetRate(c.Context(), Rate{Permits: 1000, Interval: time.Hour}))
		for range 100 { // some permits are leased
			require.NoError(c, l.Acquire(c.Context(), 1))
			time.Sleep(time.Millisecond)
		}
		check := func(name string, d time.Duration, commands int) {
			rejected := c.Rejected()
			for _, node := range []string{redistest.NodeA, redistest.NodeB} {
				assert.InDelta(c, 10*d.Seconds(), rejected[node]/commands, 3*d.Seconds(), "%s, to node %s", name, node)
			}
		}
		c.Disagree("MOVED", "MOVED")
		time.Sleep(2 * time.Minute) // the lease ends, and is returned for a minute
		check("lease", time.Minute, 1)
		for name, call := range everyCall(l) {
			if name == "TryAcquireWithin" || name == "Copy" { // which end sooner
				continue
			}
			ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
			require.ErrorIs(c, call(ctx), context.DeadlineExceeded, name)
			cancel()
			time.Sleep(time.Second) // what the call began ends
			commands := 1
			if name == "SizeInMemory" {
				commands = len(l.wire.keys) // in a pipeline
			}
			check(name, 5*time.Second, commands)
		}
	})
}
