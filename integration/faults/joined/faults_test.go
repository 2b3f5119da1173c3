package joined_test

import (
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/faults/outages"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

func single(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
}

// The server hangs for longer than any caller waits, and resumes. It replies to calls whose callers
// have gone, and their permits are released.
func TestJoin_ServerPaused_PermitsAreReleased(t *testing.T) {
	t.Parallel()
	server := servers.Single(t)
	l := start(t, single(server.Addr()))
	time.Sleep(500 * time.Millisecond)
	require.NoError(t, server.Pause())
	time.Sleep(1500 * time.Millisecond)
	require.NoError(t, server.Resume())
	l.awaitGrants(time.Now())
	time.Sleep(500 * time.Millisecond)
	l.finish(loss{})
}

// The server is killed while it writes every change to its disk before the reply, and restarts. It
// keeps every grant that it has replied.
func TestJoin_ServerKilled_PartsAgree(t *testing.T) {
	t.Parallel()
	server := servers.Single(t, "--appendonly", "yes", "--appendfsync", "always")
	l := start(t, single(server.Addr()))
	for range 2 {
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, server.Kill())
		time.Sleep(200 * time.Millisecond)
		require.NoError(t, server.Restart())
		l.awaitGrants(time.Now())
	}
	time.Sleep(500 * time.Millisecond)
	l.finish(loss{}, "cut", "refused", "LOADING")
	require.Positive(t, l.keeping.book.Errors()["refused"])
}

// Calls take effect and their replies are lost with their connections, repeatedly.
func TestJoin_RepliesLost_PartsAgree(t *testing.T) {
	t.Parallel()
	server := servers.Single(t)
	disturbed := proxy.Start(t, server.Addr())
	l := start(t, single(disturbed.Listen), server.Addr())
	for range 15 {
		restore := disturbed.Disturb(t, "timeout", "downstream", `"timeout": 0`)
		time.Sleep(30 * time.Millisecond)
		restore() // closes the connections
		time.Sleep(100 * time.Millisecond)
	}
	l.awaitGrants(time.Now())
	taken, granted, _ := l.finish(loss{}, "cut")
	require.Greater(t, taken["quota"], granted, "no reply was lost")
}

// The master of the limiters' slot hands over to its replica, as an operator requests: nothing is
// lost. Then the new master is killed, and the old one serves again: all parts may lose the same
// last grants.
func TestJoin_ClusterFailover_PartsAgree(t *testing.T) {
	t.Parallel()
	cluster := servers.NewCluster(t)
	slot, err := cluster.SlotOf(t.Context(), "{shop}")
	require.NoError(t, err)
	roles := func() (master, replica *servers.Server) {
		require.NoError(t, cluster.AwaitHealthy(t.Context()))
		master, err := cluster.MasterOf(t.Context(), slot)
		require.NoError(t, err)
		replica, err = cluster.ReplicaOf(t.Context(), slot)
		require.NoError(t, err)
		return master, replica
	}
	kinds := []string{"cut", "refused", "no answer", "no node", "CLUSTERDOWN", "READONLY", "MOVED", "TRYAGAIN",
		"UNBLOCKED"}
	option := rueidis.ClientOption{InitAddress: cluster.Addrs()}

	t.Run("requested", func(t *testing.T) {
		_, replica := roles()
		l := start(t, option)
		time.Sleep(500 * time.Millisecond)
		_, err := replica.Do(t.Context(), "CLUSTER", "FAILOVER")
		require.NoError(t, err)
		cluster.AwaitMaster(t, slot, replica)
		l.awaitGrants(time.Now())
		time.Sleep(500 * time.Millisecond)
		l.finish(loss{}, kinds...)
	})
	t.Run("killed", func(t *testing.T) {
		master, replica := roles()
		l := start(t, option)
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, master.Kill())
		lost := loss{outages.NewestGrant(t, replica, hour+":quota"), outages.NewestGrant(t, replica, second+":quota"),
			time.Now()}
		cluster.AwaitMaster(t, slot, replica)
		l.awaitGrants(time.Now())
		time.Sleep(500 * time.Millisecond)
		l.finish(lost, kinds...)
	})
}
