package outages

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
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

// A server without persistence crashes and comes back empty. The limiter is gone, and every call
// reports this until its rate is set again. It starts with all permits free: a window that spans
// the crash may hold one more rate, and no more.
func TestOutage_DataLoss_GrantsAtMostTwice(t *testing.T) {
	server := servers.Single(t)
	load := Start(t, "restart that lost the data", OnSingle(server))

	load.Run(time.Second)
	load.Break()
	require.NoError(t, server.Kill())
	killed := time.Now()
	load.MayLose(killed.Add(-Interval), killed)
	require.NoError(t, server.Restart())
	load.Run(200 * time.Millisecond)
	load.SetRate()
	outcome := load.Recover()
	outcome.Require(Most{notInitialized: outcome.oftenBy(pause), refused: outcome.oftenBy(pause),
		cut: outcome.onceEach()})
	require.LessOrEqual(t, ledger.Worst(outcome.grants, Interval).Permits, int64(2*Rate))
	require.Positive(t, outcome.goBooks.Errors()[notInitialized], "no caller noticed the loss")
}

// The servers are full and evict nothing. Redis refuses a call that would write more before it has
// written anything, with an error that says so. Once there is room again, the limiter continues as
// it was.
func TestOutage_OutOfMemory_NothingIsWritten(t *testing.T) {
	cluster := servers.NewCluster(t)
	load := Start(t, "maxmemory reached, noeviction", OnCluster(cluster))

	load.Run(time.Second)
	load.Break()
	for _, node := range cluster.Nodes() {
		// One by one: before Redis 7.0 CONFIG SET takes no more.
		command(t, node, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		command(t, node, "CONFIG", "SET", "maxmemory", "1mb")
	}
	load.Run(1500 * time.Millisecond)
	for _, node := range cluster.Nodes() {
		command(t, node, "CONFIG", "SET", "maxmemory", "0")
	}
	outcome := load.Recover()
	outcome.Require(Most{"OOM": outcome.oftenBy(pause)})
	require.Positive(t, outcome.goBooks.Errors()["OOM"], "the servers were never full")
}

// The script caches of all nodes are emptied, again and again. The next call of each script brings
// its text along, and no caller notices.
func TestOutage_ScriptFlush_HasNoEffect(t *testing.T) {
	cluster := servers.NewCluster(t)
	load := Start(t, "SCRIPT FLUSH on all nodes, ten times", OnCluster(cluster))

	for range 10 {
		for _, node := range cluster.Nodes() {
			_, err := node.Do(t.Context(), "SCRIPT", "FLUSH")
			require.NoError(t, err)
		}
		load.Run(300 * time.Millisecond)
	}
	load.AwaitGrants(time.Now())

	outcome := load.Stop()
	outcome.Require(Most{})
}

// Every connection of every client is cut, ten times: those of Go and those of Java. A call whose
// connection is cut may have been carried out or not; it fails and is never sent again, and what it
// was granted comes back after the interval.
func TestOutage_ConnectionsCut_CallsAreSentOnce(t *testing.T) {
	cluster := servers.NewCluster(t)
	load := Start(t, "CLIENT KILL of all connections, ten times", OnCluster(cluster))

	const times = 10
	var connections int64
	for range times {
		load.Break()
		for _, node := range cluster.Nodes() {
			killed, err := node.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal")
			require.NoError(t, err)
			n, err := killed.AsInt64()
			require.NoError(t, err)
			connections += n
		}
		load.Repair()
		load.Run(300 * time.Millisecond)
	}
	require.GreaterOrEqual(t, connections, int64(times), "there was hardly anything to cut")
	load.AwaitGrants(time.Now())
	load.Run(2 * time.Second)

	outcome := load.Stop()
	outcome.Require(Most{cut: outcome.once()})
}
