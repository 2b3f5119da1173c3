package joined_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/faults/outages"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// The master of the limiters' slot hands over to its replica, as an operator requests: nothing is
// lost. Then the new master is killed, and the old one serves again: all parts may lose the same
// last grants.
func TestJoin_ClusterFailover_PartsAgree(t *testing.T) {
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
