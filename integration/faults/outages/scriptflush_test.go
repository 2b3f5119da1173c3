package outages

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

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
