// Package cluster_test tests limiters that Go and Redisson share on a healthy Redis Cluster of three
// masters and three replicas.
package cluster_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/suite"
)

// All tests share a cluster, a Redisson and a Client.
var (
	nodes    *servers.Cluster
	version  servers.Version
	redis    rueidis.Client
	client   *rratelimiter.Client
	redisson *oracle.Redisson
)

func TestMain(m *testing.M) {
	suite.Main(m, func(t testing.TB) {
		nodes = servers.NewCluster(t)
		redis = servers.Connect(t, rueidis.ClientOption{InitAddress: nodes.Addrs()})
		version = servers.VersionOf(t, redis)
		client = rratelimiter.New(redis)
		redisson = oracle.Start(t, "4.7.0", oracle.Cluster(nodes.Addrs()...))
	})
}

// slotsOf returns the slots of keys.
func slotsOf(t *testing.T, keys ...string) []int64 {
	t.Helper()
	commands := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		commands[i] = redis.B().ClusterKeyslot().Key(key).Build()
	}
	slots := make([]int64, len(keys))
	for i, reply := range redis.DoMulti(t.Context(), commands...) {
		slot, err := reply.AsInt64()
		require.NoError(t, err)
		slots[i] = slot
	}
	return slots
}
