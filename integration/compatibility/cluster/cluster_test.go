// Package cluster_test tests limiters that Go and Redisson share on a healthy Redis Cluster of three
// masters and three replicas.
package cluster_test

import (
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
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

// Limiters in each sixtieth of the slots, on all masters, and names with hash tags.
func TestCalls_NamesInEverySlotRange_GoAndJavaAgree(t *testing.T) {
	const ranges, workers = 60, 8
	names := append(namesInEverySlotRange(t, ranges), "{tenant7}:second", "{tenant7}:minute", "api:{tenant8}", "{a}{b}",
		"{a}}", "{user 1}:ü", "a{b}c{", "{a}{", "x{{a}}y", "{{}", "a}{b}")
	for worker := range workers {
		t.Run(fmt.Sprintf("worker%d", worker), func(t *testing.T) {
			t.Parallel()
			for i := worker; i < len(names); i += workers {
				calls.Every(t, client, redisson, version, names[i], false)
				if i%4 == 0 || i >= ranges {
					calls.Every(t, client, redisson, version, names[i], true)
				}
			}
		})
	}
}

// namesInEverySlotRange returns n names, one in each n-th part of the slots.
func namesInEverySlotRange(t *testing.T, n int) []string {
	t.Helper()
	const slots = 16384
	found := make([]string, n)
	missing := n
	for start := 0; missing > 0; start += 4096 {
		candidates := make([]string, 4096)
		for i := range candidates {
			candidates[i] = fmt.Sprintf("user:%d", start+i)
		}
		for i, slot := range slotsOf(t, candidates...) {
			if part := int(slot) * n / slots; found[part] == "" {
				found[part] = candidates[i]
				missing--
			}
		}
	}
	return found
}
