package cli

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
	"github.com/rratelimiter/rratelimiter/limit"
)

// TestConnect_EnvironmentAndPasswordFile_AreUsed: and the number of a database.
func TestConnect_EnvironmentAndPasswordFile_AreUsed(t *testing.T) {
	s := startRedis(t)
	s.run("ACL SETUSER alice on >hidden ~* +@all")
	t.Setenv("REDIS_URL", "redis://alice:wrong@"+s.addr+"/2")
	file := written(t, "password", "hidden\n") // goes before the password of the URL
	ends(t, exitDone, "set", "api", "1/s", "--password-file", file)
	require.Contains(t, tool("ls", "--password-file", file).out, "api")
	require.Equal(t, "no limiters\n", s.on("ls"), "--redis goes before REDIS_URL, and database 0 has none")
	require.Contains(t, tool("ls", "--redis", s.url()+"/2").out, "api")
}

// TestConnect_Sentinel_FindsTheMaster: a URL of a sentinel itself is an error.
func TestConnect_Sentinel_FindsTheMaster(t *testing.T) {
	s := startRedis(t)
	s.on("set", "api", "1/s")
	host, port, _ := net.SplitHostPort(s.addr)
	config := written(t, "sentinel.conf", fmt.Sprintf("sentinel monitor main %s %s 1\n", host, port))
	sentinel := startRedis(t, "sentinel", config)
	require.Contains(t, tool("ls", "--redis", sentinel.url()+"?master_set=main").out, "api")
	require.Equal(t, exitDone, tool("try", "api", "--redis", sentinel.url()+"?master_set=main").code)
	fails(t, []string{"ls", "--redis", sentinel.url()}, "is a Sentinel and has no limiters")
	fails(t, []string{"ls", "--redis", sentinel.url() + "?master_set=other"},
		"master_set=other", "does not know this master", "SENTINEL MASTERS")

	secret := written(t, "secret", "hidden\n")
	sentinel.run("ACL SETUSER default resetpass >hidden")
	behind := []string{"ls", "--redis", sentinel.url() + "?master_set=main"}
	for _, args := range [][]string{behind, append(behind[:3:3], "--password-file", secret)} {
		fails(t, args, "requires a password", "--sentinel-password-file")
	}
	behind = append(behind, "--sentinel-password-file", secret)
	require.Contains(t, tool(behind...).out, "api")
	s.run("CONFIG SET requirepass other")
	require.Contains(t, tool(append(behind, "--password-file", written(t, "other", "other\n"))...).out, "api")
}

// TestConnect_TLS_ChecksCertificates: with a private authority and a client's certificate.
func TestConnect_TLS_ChecksCertificates(t *testing.T) {
	i := newIdentity(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	listener.Close()
	s := startRedis(t, "--tls-port", port,
		"--tls-cert-file", i.cert, "--tls-key-file", i.key, "--tls-ca-cert-file", i.ca)
	s.on("set", "api", "1/s")

	all := []string{"ls", "--redis", "rediss://" + address, "--tls-ca", i.ca, "--tls-cert", i.cert, "--tls-key", i.key}
	require.Contains(t, ends(t, exitDone, all...).out, "api")
	fails(t, []string{"ls", "--redis", "rediss://" + address, "--tls-cert", i.cert, "--tls-key", i.key}, "--tls-ca")
	fails(t, all[:5], address)
	fails(t, []string{"ls", "--redis", "redis://" + address, "--timeout", "2s"}, address)
}

// TestCluster_Limiters_AreFoundOnEveryMaster: and changed there.
func TestCluster_Limiters_AreFoundOnEveryMaster(t *testing.T) {
	nodes := startCluster(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{nodes[0].addr}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	lib := rratelimiter.New(client)
	for i := range 12 {
		l := lib.Limiter(fmt.Sprint("limiter-", i))
		require.NoError(t, l.SetRate(context.Background(), rratelimiter.Rate{Permits: 10, Interval: time.Hour}))
		require.NoError(t, redistest.Err(l.TryAcquire(context.Background(), 4)))
	}
	_, err = limit.New(lib, "policy", limit.SlidingLog{Permits: 3, Interval: time.Hour}).TryAcquire(context.Background(),
		1)
	require.NoError(t, err)

	list := nodes[1].on("ls")
	require.Equal(t, 12, strings.Count(list, "OVERALL"), list)
	require.Contains(t, list, "sliding_log/1h")
	for _, node := range nodes {
		require.Contains(t, node.text("INFO", "commandstats"), "cmdstat_scan:")
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
		ends(t, exitDone, append(args, "--redis", "redis://more:secret@"+nodes[0].addr)...)
	}

}

// TestCluster_MasterIsDown_OthersAreShown: what is missing is named, and the exit code says it. While the cluster as a
// whole is down, that is an error.
func TestCluster_MasterIsDown_OthersAreShown(t *testing.T) {
	nodes := startCluster(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{nodes[0].addr}, DisableCache: true})
	require.NoError(t, err)
	defer client.Close()
	lib := rratelimiter.New(client)
	byNode := make(map[string][]string)
	for i := range 12 {
		name := fmt.Sprint("limiter-", i)
		l := lib.Limiter(name)
		require.NoError(t, l.SetRate(context.Background(), rratelimiter.Rate{Permits: 10, Interval: time.Hour}))
		require.NoError(t, redistest.Err(l.TryAcquire(context.Background(), 4)))
		n := nodes[int(redisx.Slot(name))*len(nodes)/16384]
		byNode[n.addr] = append(byNode[n.addr], name)
	}
	require.Len(t, byNode, 3)
	gone, there := byNode[nodes[2].addr], slices.Concat(byNode[nodes[0].addr], byNode[nodes[1].addr])
	args := func(command ...string) []string { return append(command, "--redis", nodes[0].url(), "--timeout", "1s") }
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var out, failed redistest.Log
	ended := make(chan int, 1)
	go func() {
		ended <- runTool(ctx, args("watch", there[0], gone[0], "--every", "50ms"), &out, &failed)
	}()
	out.Await(t, gone[0]+` "OVERALL 10/1h" taken=4`)

	require.NoError(t, nodes[2].cmd.Process.Signal(syscall.SIGSTOP))
	r := ends(t, exitPart, args("ls")...)
	require.Contains(t, r.err, "does not answer in time")
	require.Equal(t, len(there), strings.Count(r.out, "OVERALL"), r.out)
	require.NoError(t, nodes[2].cmd.Process.Signal(syscall.SIGCONT))
	nodes[2].kill()

	for _, command := range []string{"ls", "audit"} {
		r := ends(t, exitPart, args(command)...)
		require.Contains(t, r.err, "the limiters of 1 server were not read: no Redis at "+nodes[2].addr)
		require.Contains(t, r.out, "and the limiters of "+nodes[2].addr+", which does not answer\n")
		r = ends(t, exitPart, args(command, "-o", "json")...)
		require.Contains(t, r.out, fmt.Sprintf(`"missing":[%q]`, nodes[2].addr))
	}
	for range 10 { // the node that answers CLUSTER SLOTS is any one
		require.Contains(t, nodes[0].on("show", there[0]), "taken       4, in 1 grant")
	}
	fails(t, args("show", gone[0]), nodes[2].addr, "connection refused")
	r = ends(t, exitPart, args("watch", there[0], gone[0], "--count", "2", "--every", "50ms")...)
	require.Equal(t, 2, strings.Count(r.out, there[0]+` "OVERALL 10/1h" taken=4 limit=10`), r.out)
	require.Equal(t, 2, strings.Count(r.out, gone[0]+` "unknown" wrong="`), r.out)
	fails(t, args("watch", gone[0], "--count", "2", "--every", "50ms"), nodes[2].addr)
	out.Await(t, gone[0]+` "OVERALL 10/1h" limit=10 wrong="`)
	out.Await(t, there[0]+` "OVERALL 10/1h" taken=4 limit=10 granted=0`)
	cancel()
	require.Equal(t, exitDone, <-ended, failed.String())
	require.NotContains(t, out.String(), gone[0]+` "OVERALL 10/1h" taken=0`)
	// The others answer where the one that is named is gone.
	ends(t, exitDone, "show", there[0], "--redis", nodes[2].url()+"?addr="+nodes[0].addr, "--timeout", "2s")

	nodes[0].run("CONFIG SET cluster-require-full-coverage yes")
	nodes[1].run("CONFIG SET cluster-require-full-coverage yes")
	require.Eventually(t, func() bool {
		return strings.Contains(nodes[0].text("CLUSTER", "INFO"), "cluster_state:fail")
	}, time.Minute, 10*time.Millisecond)
	fails(t, args("ls"), "the cluster of", "is down")
}
