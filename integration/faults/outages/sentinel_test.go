package outages

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// The master dies, and the sentinels make one of its two replicas the new one. The limiter may have
// lost what the master granted in its last moments, as in a cluster. This is at most what the
// replica that is furthest behind lacks.
func TestOutage_SentinelMasterKilled_BoundsTheLoss(t *testing.T) {
	sentinel := servers.NewSentinel(t)
	load := Start(t, "kill -9 of the master under sentinels", OnSentinel(sentinel))

	load.Run(time.Second)
	master, err := sentinel.Master(t.Context())
	require.NoError(t, err)
	load.Break()
	require.NoError(t, master.Kill())
	var known []time.Time
	for _, server := range sentinel.Servers() {
		if server != master {
			known = append(known, NewestGrant(t, server, Name))
		}
	}
	load.MayLose(slices.MinFunc(known, time.Time.Compare), time.Now())
	sentinel.AwaitOtherMaster(t, master)
	outcome := load.Recover()
	outcome.Require(Most{"READONLY": outcome.oftenBy(pause), refused: outcome.oftenBy(pause), cut: outcome.onceEach()})
}
