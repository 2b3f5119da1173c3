package outages

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// A server that stands alone hangs for three seconds, longer than any caller is willing to wait:
// its connections stay open and nothing answers. Each call ends with its context. When the server
// wakes up it answers calls whose callers have long gone: what it grants them goes back.
func TestOutage_ServerPaused_PermitsAreReleased(t *testing.T) {
	server := servers.Single(t)
	load := Start(t, "SIGSTOP of the only server for 3 s", OnSingle(server))

	load.Run(time.Second)
	load.Break()
	require.NoError(t, server.Pause())
	load.Run(3 * time.Second)
	require.NoError(t, server.Resume())
	outcome := load.Recover()
	outcome.Require(Most{deadline: outcome.oftenBy(within)})
	require.Positive(t, outcome.goBooks.Errors()[deadline], "no call met the paused server")
}

// In a cluster three seconds are enough for the others to give the limiter's slot to its replica.
// The old master resumes and does not know this yet. It grants what waited in its sockets, and
// loses all of that when it becomes the new master's replica.
func TestOutage_MasterPaused_ReplicaTakesOver(t *testing.T) {
	cluster := servers.NewCluster(t)
	slot, master, replica := limiterSlot(t, cluster)
	load := Start(t, "SIGSTOP of the master for 3 s", OnCluster(cluster))

	load.Run(time.Second)
	load.Break()
	require.NoError(t, master.Pause())
	load.MayLose(NewestGrant(t, replica, Name), time.Now())
	load.Run(3 * time.Second)
	cluster.AwaitMaster(t, slot, replica)
	resumed := time.Now()
	require.NoError(t, master.Resume())
	require.Eventually(t, func() bool {
		return strings.Contains(master.Text(t, "INFO", "replication"), "role:slave\r\n")
	}, settleTimeout, 20*time.Millisecond, "the old master knows that it is a replica")
	load.MayLose(resumed, time.Now())
	outcome := load.Recover()
	outcome.Require(outcome.mostOfLostMaster())
	require.Positive(t, outcome.goBooks.Errors()[deadline], "no call met the paused server")
}
