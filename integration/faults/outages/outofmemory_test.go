package outages

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

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
