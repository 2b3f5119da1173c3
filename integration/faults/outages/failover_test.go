package outages

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// The limiter's master is killed, and the cluster makes its replica the new one. Redis replicates
// after its reply, so the replica may lack the master's last grants. The limiter loses these grants
// and nothing else.
func TestOutage_MasterKilled_BoundsTheLoss(t *testing.T) {
	t.Parallel()
	cluster := servers.NewCluster(t)
	slot, master, replica := limiterSlot(t, cluster)
	load := Start(t, "kill -9 of the master", OnCluster(cluster))

	load.Run(time.Second)
	newest := NewestGrant(t, replica, Name)
	load.Break()
	require.NoError(t, master.Kill())
	load.MayLose(newest, time.Now())
	cluster.AwaitMaster(t, slot, replica)
	outcome := load.Recover()
	outcome.Require(outcome.mostOfLostMaster())
}

// mostOfLostMaster returns how many calls may fail while a cluster elects another master: those
// under way, and all that arrive until then.
func (o *Outcome) mostOfLostMaster() Most {
	return Most{
		cut: o.onceEach(), dead: o.onceEach(), deadline: o.oftenBy(within), refused: o.oftenBy(pause),
		noNode:        o.oftenBy(pause),
		"CLUSTERDOWN": o.oftenBy(pause), "READONLY": o.oftenBy(pause),
	}
}

// The replica has received nothing for a third of the interval when its master is killed, as on a
// broken link. An operator makes it the master at once. All grants of the old master in that time
// are lost. A window may hold as many permits above the rate, and no more.
func TestOutage_ReplicaBehind_BoundsTheLoss(t *testing.T) {
	t.Parallel()
	cluster := servers.NewCluster(t)
	slot, master, replica := limiterSlot(t, cluster)
	load := Start(t, "kill -9 of the master, takeover by a replica 300 ms behind", OnCluster(cluster))

	load.Run(time.Second)
	// A master without a password rejects a replica that sends one, so the link stays broken.
	command(t, replica, "CONFIG", "SET", "masterauth", "wrong")
	command(t, replica, "CLIENT", "KILL", "TYPE", "master")
	load.Run(300 * time.Millisecond)
	newest := NewestGrant(t, replica, Name)
	load.Break()
	require.NoError(t, master.Kill())
	load.MayLose(newest, time.Now())
	command(t, replica, "CLUSTER", "FAILOVER", "TAKEOVER")
	cluster.AwaitMaster(t, slot, replica)
	outcome := load.Recover()
	outcome.Require(outcome.mostOfLostMaster())
	require.Positive(t, outcome.lost, "nothing was lost")
}

// An operator makes the replica of the limiter's master the new master. The old one stops and hands
// over all its data before the new one serves: nothing is lost, and no window exceeds the rate.
func TestOutage_ManualFailover_NoPermitIsLost(t *testing.T) {
	t.Parallel()
	cluster := servers.NewCluster(t)
	slot, _, replica := limiterSlot(t, cluster)
	load := Start(t, "CLUSTER FAILOVER", OnCluster(cluster))

	load.Run(time.Second)
	load.Break()
	command(t, replica, "CLUSTER", "FAILOVER")
	cluster.AwaitMaster(t, slot, replica)
	outcome := load.Recover()
	outcome.Require(Most{"CLUSTERDOWN": outcome.once(), "READONLY": outcome.once(), cut: outcome.onceEach(),
		deadline: outcome.once()})
}

// The master is killed, and the sentinels make one of its two replicas the new one. As in a
// cluster, the limiter may lose the master's last grants: at most those that the replica furthest
// behind lacks.
func TestOutage_SentinelMasterKilled_BoundsTheLoss(t *testing.T) {
	t.Parallel()
	sentinel := servers.NewSentinel(t)
	load := Start(t, "kill -9 of the master under sentinels", OnSentinel(sentinel))

	load.Run(time.Second)
	master, err := sentinel.Master(t.Context())
	require.NoError(t, err)
	var known []time.Time
	for _, server := range sentinel.Servers() {
		if server != master {
			known = append(known, NewestGrant(t, server, Name))
		}
	}
	load.Break()
	require.NoError(t, master.Kill())
	load.MayLose(slices.MinFunc(known, time.Time.Compare), time.Now())
	sentinel.AwaitOtherMaster(t, master)
	outcome := load.Recover()
	outcome.Require(Most{"READONLY": outcome.oftenBy(pause), refused: outcome.oftenBy(pause), cut: outcome.onceEach()})
}

// An operator has the sentinels make a replica the master. The old master goes on until they tell it,
// and what it grants meanwhile is lost.
func TestOutage_SentinelFailover_BoundsTheLoss(t *testing.T) {
	t.Parallel()
	sentinel := servers.NewSentinel(t)
	load := Start(t, "SENTINEL FAILOVER", OnSentinel(sentinel))

	load.Run(time.Second)
	load.Break()
	began := time.Now()
	failOver(t, sentinel)
	load.MayLose(began, time.Now())
	outcome := load.Recover()
	outcome.Require(Most{"READONLY": outcome.once(), cut: outcome.onceEach(), deadline: outcome.once()})
}

// The operator pauses writes on the old master before. Calls wait for the new one.
func TestOutage_SentinelFailoverAfterPause_NoPermitIsLost(t *testing.T) {
	t.Parallel()
	sentinel := servers.NewSentinel(t)
	master, err := sentinel.Master(t.Context())
	require.NoError(t, err)
	pauseWrites := []string{"CLIENT", "PAUSE", "10000", "WRITE"} // longer than the promotion takes
	if servers.VersionOf(t, master.Client(t)).Lacks(t, servers.PauseWrites) {
		_, err := master.Do(t.Context(), pauseWrites...)
		require.ErrorContains(t, err, "CLIENT")
		return
	}
	load := Start(t, "SENTINEL FAILOVER after CLIENT PAUSE", OnSentinel(sentinel))

	load.Run(time.Second)
	load.Break()
	command(t, master, pauseWrites...)
	failOver(t, sentinel)
	outcome := load.Recover()
	outcome.Require(Most{"READONLY": outcome.once(), cut: outcome.onceEach(), deadline: outcome.oftenBy(within)})
}

// failOver has the sentinels make a replica the master, and waits until the old one knows.
func failOver(t *testing.T, sentinel *servers.Sentinel) {
	t.Helper()
	master, err := sentinel.Master(t.Context())
	require.NoError(t, err)
	command(t, sentinel.Sentinels()[0], "SENTINEL", "FAILOVER", sentinel.MasterName())
	require.Eventually(t, func() bool {
		info, err := master.Do(t.Context(), "INFO", "replication") // the sentinels cut connections
		return err == nil && strings.Contains(info.String(), "role:slave")
	}, settleTimeout, 10*time.Millisecond)
}
