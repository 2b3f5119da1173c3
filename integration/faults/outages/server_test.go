package outages

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// A single server hangs for longer than any caller waits: its connections stay open and no reply
// comes. Each call ends with its context. When the server resumes, it replies to cancelled calls, and
// their permits are released.
func TestOutage_ServerPaused_PermitsAreReleased(t *testing.T) {
	t.Parallel()
	server := servers.Single(t)
	const hang = 2*within + 500*time.Millisecond
	load := Start(t, fmt.Sprintf("SIGSTOP of the only server for %v", hang), OnSingle(server))
	load.allReplies = true

	load.Run(time.Second)
	load.Break()
	require.NoError(t, server.Pause())
	load.Run(hang)
	require.NoError(t, server.Resume())
	outcome := load.Recover()
	outcome.Require(Most{deadline: outcome.oftenBy(within)})
	require.Positive(t, outcome.goBooks.Errors()[deadline], "no call met the paused server")
}

// In a cluster, three seconds are enough for the replica to take over the limiter's slot. The old
// master resumes before it knows this. It runs the calls that waited in its sockets, and loses
// their grants when it becomes a replica.
func TestOutage_MasterPaused_ReplicaTakesOver(t *testing.T) {
	t.Parallel()
	cluster := servers.NewCluster(t)
	slot, master, replica := limiterSlot(t, cluster)
	load := Start(t, "SIGSTOP of the master for 3 s", OnCluster(cluster))

	load.Run(time.Second)
	newest := NewestGrant(t, replica, Name)
	load.Break()
	require.NoError(t, master.Pause())
	load.MayLose(newest, time.Now())
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

// A server without persistence crashes and restarts empty. The limiter is gone, and every call
// reports this until its rate is set again. Then all permits are free: a window that spans the
// crash may hold at most twice the rate.
func TestOutage_DataLoss_GrantsAtMostTwice(t *testing.T) {
	t.Parallel()
	server := servers.Single(t)
	load := Start(t, "restart that lost the data", OnSingle(server))

	load.Run(time.Second)
	load.Break()
	require.NoError(t, server.Kill())
	killed := time.Now()
	load.MayLose(killed.Add(-Interval), killed)
	load.emptied = killed
	require.NoError(t, server.Restart())
	load.Run(200 * time.Millisecond)
	load.SetRate()
	outcome := load.Recover()
	outcome.Require(Most{notInitialized: outcome.oftenBy(pause), refused: outcome.oftenBy(pause),
		cut: outcome.onceEach()})
	require.LessOrEqual(t, ledger.Worst(outcome.grants, Interval).Permits, int64(2*Rate))
	require.Positive(t, outcome.goBooks.Errors()[notInitialized], "no caller noticed the loss")
}

// The servers are full and evict nothing. Redis rejects a call that would write before it writes
// anything. When there is memory again, the limiter continues.
func TestOutage_OutOfMemory_NothingIsWritten(t *testing.T) {
	t.Parallel()
	cluster := servers.NewCluster(t)
	load := Start(t, "maxmemory reached, noeviction", OnCluster(cluster))

	load.Run(time.Second)
	load.Break()
	for _, node := range cluster.Nodes() {
		// Before Redis 7.0, CONFIG SET takes one setting.
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

// The script caches of all nodes are emptied repeatedly. The next call of each script sends its
// text, and no call fails.
func TestOutage_ScriptFlush_HasNoEffect(t *testing.T) {
	t.Parallel()
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
	outcome.Require(Most{deadline: outcome.once()}) // a busy machine may take long to load scripts
}

// Every connection of every client, Go's and Java's, is closed ten times. A call under way may have
// taken effect. It fails and is never sent again, and its permits return after the interval.
func TestOutage_ConnectionsCut_CallsAreSentOnce(t *testing.T) {
	t.Parallel()
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
	require.GreaterOrEqual(t, connections, int64(times), "few connections were closed")
	load.AwaitGrants(time.Now())
	load.Run(2 * time.Second)

	outcome := load.Stop()
	outcome.Require(Most{cut: outcome.once()})
}
