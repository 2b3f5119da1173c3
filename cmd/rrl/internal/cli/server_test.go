package cli

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// server is a real redis-server for a test, on a free port.
type server struct {
	testing.TB
	addr  string
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended
	rueidis.Client
}

func (s *server) url() string { return "redis://" + s.addr }

// startRedis starts a server, which ends with the test.
func startRedis(t testing.TB, args ...string) *server {
	t.Helper()
	name := os.Getenv("REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	require.NoError(t, err, "install redis-server (make deps), or name one in REDIS_SERVER")
	for range 10 { // a port that was free may be taken when the server comes to it
		if s := tryRedis(t, path, args); s != nil {
			return s
		}
	}
	t.Fatal("no redis-server could be started")
	return nil
}

func tryRedis(t testing.TB, path string, args []string) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{TB: t, addr: listener.Addr().String(), ended: make(chan struct{})}
	_, port, _ := net.SplitHostPort(s.addr)
	listener.Close()
	if n, _ := strconv.Atoi(port); n > 55000 {
		return nil // its cluster bus port would be beyond the last one
	}
	log := new(redistest.Log)
	own := []string{"--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir()}
	if len(args) > 0 && args[0] == "sentinel" {
		args = []string{args[1], "--sentinel"} // its configuration file has to come first
	} else {
		own = append(own, "--save", "", "--enable-debug-command", "yes")
	}
	s.cmd = exec.Command(path, append(args[:len(args):len(args)], own...)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = sysProcAttr()
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the signal comes when this thread ends
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait()
		}
		close(s.ended)
	}()
	require.NoError(t, <-started)
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
	})
	ready := func() bool { return accepts.MatchString(log.String()) }
	require.Eventually(t, func() bool {
		select {
		case <-s.ended:
			return true
		default:
			return ready()
		}
	}, 30*time.Second, 5*time.Millisecond)
	if !ready() {
		t.Log(log.String())
		return nil
	}
	s.Client, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr}, ForceSingleClient: true,
		DisableCache: true, DisableRetry: true})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// accepts is in the output of a server that accepts connections.
var accepts = regexp.MustCompile("Ready to accept connections|Sentinel ID is")

// run runs commands, a line each, their words parted by spaces.
func (s *server) run(lines ...string) {
	s.Helper()
	for _, line := range lines {
		s.words(strings.Fields(line)...)
	}
}

// words runs one command.
func (s *server) words(words ...string) rueidis.RedisResult {
	s.Helper()
	result := s.Do(context.Background(), s.B().Arbitrary(words...).Build())
	if err := result.Error(); err != nil && !rueidis.IsRedisNil(err) {
		require.NoError(s, err, "%q", words)
	}
	return result
}

func (s *server) text(words ...string) string {
	text, _ := s.words(words...).ToString()
	return text
}

// kill ends the server as a crash would. The port of a process that has not ended yet still accepts
// connections, and closes them.
func (s *server) kill() {
	require.NoError(s, s.cmd.Process.Kill())
	<-s.ended
}

// startCluster starts three masters that share all slots.
func startCluster(t testing.TB) []*server {
	t.Helper()
	nodes := make([]*server, 3)
	for i := range nodes {
		nodes[i] = startRedis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
			"--cluster-require-full-coverage", "no")
		words := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i * 16384 / 3; slot < (i+1)*16384/3; slot++ {
			words = append(words, strconv.Itoa(slot))
		}
		nodes[i].words("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		nodes[i].words(words...)
	}
	for _, node := range nodes[1:] {
		host, port, _ := net.SplitHostPort(nodes[0].addr)
		node.words("CLUSTER", "MEET", host, port)
	}
	for _, node := range nodes {
		require.Eventually(t, func() bool {
			info := node.text("CLUSTER", "INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info,
				"cluster_slots_assigned:16384") && strings.Contains(info, "cluster_size:3")
		}, 30*time.Second, 50*time.Millisecond)
	}
	return nodes
}

// ran is what a run of the tool gave.
type ran struct {
	code     int
	out, err string
}

// tool runs the tool.
func tool(args ...string) ran { return toolAt(time.Now, args...) }

func toolAt(now func() time.Time, args ...string) ran {
	var out, failed bytes.Buffer
	a := &app{out: &out, err: &failed, clock: now}
	code := a.run(context.Background(), args)
	return ran{code, out.String(), failed.String()}
}

// ends runs the tool, which must end with this exit code.
func ends(t testing.TB, code int, args ...string) ran {
	t.Helper()
	r := tool(args...)
	require.Equal(t, code, r.code, "%q: %s", args, r.err)
	return r
}

// fails runs the tool, which ends with an error that has these texts.
func fails(t testing.TB, args []string, want ...string) ran {
	t.Helper()
	r := ends(t, exitError, args...)
	for _, text := range want {
		require.Contains(t, r.err, text, "%q", args)
	}
	return r
}

// corrupt shows a corrupt limiter and requires an error too.
func (s *server) corrupt(name string) string {
	s.Helper()
	r := tool("show", name, "--redis", s.url())
	require.Equal(s, exitError, r.code)
	require.Contains(s, r.err, strconv.Quote(name)+" is corrupt: ")
	return r.out
}

// looked demands that a command that only reads has shown something, be it that a limiter is corrupt.
func looked(t *testing.T, args []string, r ran) {
	t.Helper()
	require.NotEmpty(t, r.out)
	if r.code == exitError && args[0] == "show" {
		require.Contains(t, r.err, " is corrupt: ")
		return
	}
	require.NotEqual(t, exitError, r.code, "%q: %s", args, r.err)
}

// ends runs the tool on this server, which must end with this exit code.
func (s *server) ends(code int, args ...string) ran {
	s.Helper()
	return ends(s, code, append([]string{"--redis", s.url()}, args...)...)
}

// on runs the tool on this server, and demands that it works.
func (s *server) on(args ...string) string {
	s.Helper()
	return s.ends(exitDone, args...).out
}

// serving is rrl serve on loopback.
type serving struct {
	testing.TB
	log   *redistest.Log
	http  string
	conn  *grpc.ClientConn
	envoy ratelimit.RateLimitServiceClient
	stop  func() int // ends it, and returns its exit code
}

// serve runs rrl serve on free ports, which ends with the test.
func serve(t testing.TB, args ...string) *serving {
	t.Helper()
	s := started(t, args...)
	s.await()
	return s
}

// started is rrl serve that need not listen yet.
func started(t testing.TB, args ...string) *serving {
	t.Helper()
	s := &serving{TB: t, log: new(redistest.Log)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	args = append([]string{"serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--deadline", "10s"}, args...)
	go func() { ended <- runTool(ctx, args, io.Discard, s.log) }()
	s.stop = sync.OnceValue(func() int {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		s.stop()
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	return s
}

var listens = regexp.MustCompile(`grpc=(\S+) http=(\S+)`)

// await waits until it listens, and has read its files.
func (s *serving) await() {
	s.Helper()
	s.awaitWith(insecure.NewCredentials())
}

// awaitWith is the same for a client with other credentials.
func (s *serving) awaitWith(creds credentials.TransportCredentials) {
	s.Helper()
	s.says("rls: configuration in force")
	require.Eventually(s, func() bool { return listens.MatchString(s.log.String()) }, 20*time.Second, 5*time.Millisecond,
		s.log)
	found := listens.FindStringSubmatch(s.log.String())
	s.http = "http://" + found[2]
	conn, err := grpc.NewClient(found[1], grpc.WithTransportCredentials(creds))
	require.NoError(s, err)
	s.Cleanup(func() { conn.Close() })
	s.conn = conn
	s.envoy = ratelimit.NewRateLimitServiceClient(conn)
}

// ask asks for a descriptor of domain edge: KEY=VALUE, and more of them.
func (s *serving) ask(ctx context.Context, entries ...string) (*ratelimit.RateLimitResponse, error) {
	d := new(common.RateLimitDescriptor)
	for _, entry := range entries {
		key, value, _ := strings.Cut(entry, "=")
		d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return s.envoy.ShouldRateLimit(ctx, &ratelimit.RateLimitRequest{Domain: "edge",
		Descriptors: []*common.RateLimitDescriptor{d}})
}

// get gives what is answered over HTTP.
func (s *serving) get(path string) (int, string) {
	s.Helper()
	response, err := http.Get(s.http + path)
	require.NoError(s, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(s, err)
	return response.StatusCode, string(body)
}

// says waits for a text in the log.
func (s *serving) says(text string) {
	s.Helper()
	require.Eventually(s, func() bool { return strings.Contains(s.log.String(), text) }, 20*time.Second,
		5*time.Millisecond, "%q is not in the log", text)
}

// runTool runs the tool and returns its exit code.
func runTool(ctx context.Context, args []string, out, err io.Writer) int {
	return (&app{out: out, err: err}).run(ctx, args)
}
