package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestCluster_Limiters_AreFoundOnEveryMaster: and changed there. A missing master is an error.
func TestCluster_Limiters_AreFoundOnEveryMaster(t *testing.T) {
	nodes := startCluster(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{nodes[0].addr}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	lib := rratelimiter.New(client)
	for i := range 12 {
		l := lib.Limiter(fmt.Sprint("limiter-", i))
		require.NoError(t, l.SetRate(context.Background(), rratelimiter.Rate{Permits: 10, Interval: time.Hour}))
		_, err := l.TryAcquire(context.Background(), 4)
		require.NoError(t, err)
	}
	_, err = limit.New(lib, "policy", limit.SlidingLog{Permits: 3, Interval: time.Hour}).TryAcquire(context.Background(),
		1)
	require.NoError(t, err)
	seen := make([]func(string) []string, len(nodes))
	for i, node := range nodes {
		seen[i] = monitor(t, node.addr)
	}

	list := nodes[1].on("ls")
	require.Equal(t, 12, strings.Count(list, "OVERALL"), list)
	require.Contains(t, list, "log/1h")
	for i := range nodes {
		require.Contains(t, seen[i](fmt.Sprint("end-", i)), "scan")
	}
	for i := range 12 {
		require.Contains(t, nodes[2].on("show", fmt.Sprint("limiter-", i)), "taken       4, in 1 grant")
	}
	require.Contains(t, nodes[0].on("show", "policy"), "taken       1")
	require.Contains(t, nodes[0].on("try", "limiter-3", "-n", "6"), "granted: 6 of limiter-3, 0 left of 10")
	require.Contains(t, nodes[0].on("reset", "limiter-3", "--yes"), "10 permits")
	require.Contains(t, nodes[0].on("set", "limiter-3", "7/1m"), "was 10/1h OVERALL")
	require.Contains(t, nodes[0].on("audit"), "0 problems")

	fails(t, []string{"show", "a}{b", "--redis", nodes[0].url()})
	fails(t, []string{"try", "a}{b", "--redis", nodes[0].url()}, "do not share a cluster slot")
	fails(t, []string{"ls", "--redis", nodes[0].url() + "/1"}, "only database 0")

	for _, node := range nodes {
		node.run("ACL SETUSER viewer on >secret ~* +@read",
			"ACL SETUSER more on >secret ~* +@read +cluster|slots +cluster|shards")
	}
	fails(t, []string{"ls", "--redis", "redis://viewer:secret@" + nodes[0].addr}, "cluster|slots")
	for _, args := range [][]string{{"ls"}, {"show", "limiter-0"}, {"show", "policy"}, {"audit"},
		{"watch", "limiter-0", "--count", "2", "--every", "50ms"}} {
		r := tool(append(args, "--redis", "redis://more:secret@"+nodes[0].addr)...)
		require.Equal(t, exitDone, r.code, r.err)
	}

	nodes[2].kill()
	r := fails(t, []string{"ls", "--redis", nodes[0].url(), "--timeout", "2s"}, nodes[2].addr, "connection refused")
	require.Empty(t, r.out, "a part of the limiters would look like all of them")
	// The other nodes answer still where the one that is named is gone.
	r = tool("show", "limiter-0", "--redis", nodes[2].url()+"?addr="+nodes[0].addr, "--timeout", "2s")
	require.NotContains(t, r.err, "panic")
}
