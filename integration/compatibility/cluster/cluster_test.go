// Package cluster_test tests limiters that Go and Redisson share on a Redis Cluster of three
// masters and three replicas. The cluster stays healthy here; integration/faults breaks it.
package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
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
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	// Long enough for a first build of the Java program.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if nodes, err = servers.OpenCluster(ctx); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, nodes.Close()) }()
	if redis, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: nodes.Addrs()}); err != nil {
		return 0, err
	}
	defer redis.Close()
	if version, err = servers.VersionOf(ctx, redis); err != nil {
		return 0, err
	}
	client = rratelimiter.New(redis)
	if redisson, err = oracle.Open(ctx, "4.7.0", oracle.Cluster(nodes.Addrs()...)); err != nil {
		return 0, err
	}
	defer redisson.Close()
	return m.Run(), nil
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
