package joined_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// The master of the limiters' slot hands over to its replica, as an operator asks for: nothing is lost. Then the new one is killed before
// it can, and the old one serves again: what the dead one granted last may be forgotten, by all parts alike.
func TestClusterFailover(t *testing.T) {
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
	await := func(want *servers.Server) {
		require.Eventually(t, func() bool {
			now, err := cluster.MasterOf(t.Context(), slot)
			return err == nil && now == want
		}, patience, 20*time.Millisecond)
	}
	kinds := []string{"cut", "refused", "no answer", "no node", "CLUSTERDOWN", "READONLY", "MOVED", "TRYAGAIN", "UNBLOCKED"}
	option := rueidis.ClientOption{InitAddress: cluster.Addrs()}

	t.Run("asked for", func(t *testing.T) {
		_, replica := roles()
		l := start(t, option)
		time.Sleep(500 * time.Millisecond)
		_, err := replica.Do(t.Context(), "CLUSTER", "FAILOVER")
		require.NoError(t, err)
		await(replica)
		l.awaitGrants(time.Now())
		time.Sleep(500 * time.Millisecond)
		l.finish(loss{}, kinds...)
	})
	t.Run("killed", func(t *testing.T) {
		master, replica := roles()
		l := start(t, option)
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, master.Kill())
		lost := loss{newestGrant(t, replica, hour), newestGrant(t, replica, second), time.Now()}
		await(replica)
		l.awaitGrants(time.Now())
		time.Sleep(500 * time.Millisecond)
		l.finish(lost, kinds...)
	})
}

// newestGrant is the moment of the newest grant of a Join that a replica knows. Its master made all grants that the replica has not
// seen after that one, so their calls ended at that moment or later.
func newestGrant(t *testing.T, replica *servers.Server, name string) time.Time {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{replica.Addr()}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	var newest []rueidis.ZScore
	require.NoError(t, client.Dedicated(func(c rueidis.DedicatedClient) error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		// A server that is in no cluster refuses READONLY, and needs none.
		_ = c.Do(ctx, c.B().Readonly().Build()).Error()
		newest, err = c.Do(ctx, c.B().Zrevrange().Key(name+":quota:permits").Start(0).Stop(0).Withscores().Build()).AsZScores()
		return err
	}))
	require.Len(t, newest, 1, "the replica on %s knows no grant of %s", replica.Addr(), name)
	return time.UnixMilli(int64(newest[0].Score))
}
