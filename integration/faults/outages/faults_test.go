package outages

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
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

// command runs a command on one server.
func command(t *testing.T, s *servers.Server, args ...string) {
	t.Helper()
	_, err := s.Do(t.Context(), args...)
	require.NoError(t, err, "%v on %s", args, s.Addr())
}

// limiterSlot is the limiter's slot and the nodes that serve it.
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

// awaitMaster waits until the node serves the slot.
func awaitMaster(t *testing.T, cluster *servers.Cluster, slot int, want *servers.Server) {
	t.Helper()
	awaitUntil(t, "the replica becomes master", func() error {
		now, err := cluster.MasterOf(t.Context(), slot)
		if err == nil && now != want {
			err = fmt.Errorf("the master of slot %d is still %s", slot, now.Addr())
		}
		return err
	})
}

// newestGrant is the moment of the newest grant that a replica knows. Its master made all grants that the replica has not
// seen after that one, so their calls ended at that moment or later.
func newestGrant(t *testing.T, replica *servers.Server) time.Time {
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
		newest, err = c.Do(ctx, c.B().Zrevrange().Key(grantsKey).Start(0).Stop(0).Withscores().Build()).AsZScores()
		return err
	}))
	require.Len(t, newest, 1, "the replica on %s knows no grant", replica.Addr())
	ms, err := strconv.ParseInt(strconv.FormatFloat(newest[0].Score, 'f', 0, 64), 10, 64)
	require.NoError(t, err)
	return time.UnixMilli(ms)
}
