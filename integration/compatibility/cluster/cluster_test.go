// Package cluster_test tests limiters that Go and Redisson share on a Redis Cluster of three
// masters and three replicas. The cluster stays healthy here; integration/faults breaks it.
package cluster_test

import (
	"strconv"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/suite"
)

// What all tests share: one cluster, which they never change, one Redisson and one Go client on it.
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

// slotsOf asks the server for the slots of keys.
func slotsOf(t *testing.T, keys ...string) []int64 {
	t.Helper()
	ask := make(rueidis.Commands, len(keys))
	for i, key := range keys {
		ask[i] = redis.B().ClusterKeyslot().Key(key).Build()
	}
	slots := make([]int64, len(keys))
	for i, answer := range redis.DoMulti(t.Context(), ask...) {
		slot, err := answer.AsInt64()
		require.NoError(t, err)
		slots[i] = slot
	}
	return slots
}

// keysOf are the five keys that a client of that id names for a limiter with an ordinary name or a
// tag, as Redisson names them.
func keysOf(name, tagged, id string) []string {
	return []string{name, tagged + ":value", tagged + ":value:" + id, tagged + ":permits", tagged + ":permits:" + id}
}

// contents is what each of the keys holds, serialised by the server, with "" for a key that does
// not exist.
func contents(t *testing.T, keys []string) []string {
	t.Helper()
	held := make([]string, len(keys))
	for i, key := range keys {
		dump, err := redis.Do(t.Context(), redis.B().Dump().Key(key).Build()).ToString()
		if !rueidis.IsRedisNil(err) {
			require.NoError(t, err)
		}
		held[i] = strconv.Quote(dump)
		if dump == "" {
			held[i] = ""
		}
	}
	return held
}
