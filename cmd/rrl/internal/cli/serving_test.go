package cli

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

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
