package outages

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// TestMain prints the figures of all faults in one table, which docs/reliability.md shows.
func TestMain(m *testing.M) {
	code := m.Run()
	if len(outcomes) > 0 {
		fmt.Printf("\n%s\n", Table(outcomes...))
	}
	os.Exit(code)
}

// command runs a command on a server.
func command(t *testing.T, s *servers.Server, args ...string) {
	t.Helper()
	_, err := s.Do(t.Context(), args...)
	require.NoError(t, err, "%v on %s", args, s.Addr())
}

// limiterSlot returns the limiter's slot and its nodes.
func limiterSlot(t *testing.T, cluster *servers.Cluster) (slot int, master, replica *servers.Server) {
	t.Helper()
	slot, err := cluster.SlotOf(t.Context(), Name)
	require.NoError(t, err)
	master, err = cluster.MasterOf(t.Context(), slot)
	require.NoError(t, err)
	replica, err = cluster.ReplicaOf(t.Context(), slot)
	require.NoError(t, err)
	return slot, master, replica
}
