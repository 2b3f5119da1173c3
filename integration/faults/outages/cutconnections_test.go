package outages

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

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
