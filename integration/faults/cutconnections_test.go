package faults

import (
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/servers"
)

// Every connection of every client is cut, ten times: those of Go and those of Java. A call whose connection is cut may have been carried
// out or not; it fails and is never sent again, and what it was granted comes back after the interval.
func TestAllConnectionsCut(t *testing.T) {
	cluster := servers.NewCluster(t)
	load := Start(t, "CLIENT KILL of all connections, ten times", OnCluster(cluster))

	for range 10 {
		for _, node := range cluster.Nodes() {
			command(t, node, "CLIENT", "KILL", "TYPE", "normal")
		}
		load.Run(300 * time.Millisecond)
	}
	load.AwaitGrants(time.Now())
	load.Run(time.Second)

	outcome := load.Stop()
	outcome.RequireCalm(cut)
	outcome.RequireWindows()
}
