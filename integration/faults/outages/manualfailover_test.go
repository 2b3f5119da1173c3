package outages

import (
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// An operator makes the replica of the limiter's master the new master, for maintenance of the old
// one. The old one stops, hands over all that it has, and only then does the new one serve: nothing
// is lost, and no window is too full.
func TestOutage_ManualFailover_NoPermitIsLost(t *testing.T) {
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
