// Package proxies tests real proxies with a real Redis: Envoy with the rate limit service, by its
// protocol, and nginx and Caddy with a rules file, by auth_request and forward_auth.
package proxies

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/rules"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

const config = `
domain: edge
descriptors:
  - key: path
    value: /login
    descriptors:
      - {key: remote_address, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: remote_address, rate_limit: {unit: hour, requests_per_unit: 5}}
`

// authRules limits what nginx and Caddy ask about as config limits Envoy's requests.
const authRules = `
domain: web
match: all
address: {trusted: [127.0.0.1]}
defaults: {key: ip, policy: fixed_window}
rules:
  - {name: login, match: /login, limits: 3/h}
  - {name: banned, match: /banned, ban: true}
  - {name: all, limits: 5/h}
`

// service is the rate limit service on a Redis, and the program behind the proxy.
type service struct {
	redis    *servers.Server
	grpc     int
	http     int
	upstream *httptest.Server
	served   atomic.Int64
}

func start(t *testing.T, change ...func(*rls.Config)) *service {
	t.Helper()
	s := &service{redis: servers.Single(t)}
	conn := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{s.redis.Addr()}, DisableCache: true})
	file := filepath.Join(t.TempDir(), "edge.yaml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	set, err := rules.Parse("rules.yaml", []byte(authRules))
	require.NoError(t, err)
	c := rls.Config{Client: rratelimiter.New(conn), Path: file, Log: slog.New(slog.DiscardHandler),
		Deadline: time.Second}
	c.Other = set.ForwardAuth(c.Client, httplimit.Deadline(time.Second))
	c.GRPC, s.grpc = listen(t)
	c.HTTP, s.http = listen(t)
	for _, f := range change {
		f(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- rls.Serve(ctx, c) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the service ended with %v", err)
		}
	})
	s.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.served.Add(1)
		if r.URL.Path == "/forbidden" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = io.WriteString(w, "hello")
	}))
	t.Cleanup(s.upstream.Close)
	return s
}

func listen(t testing.TB) (net.Listener, int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return l, l.Addr().(*net.TCPAddr).Port
}

// freePort returns a port without a listener, below those of outgoing connections.
func freePort() int {
	for {
		port := 2000 + rand.IntN(8000)
		if l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
}

// proxy runs a proxy until the test ends. It returns when the proxy replies.
func proxy(t *testing.T, ready string, program string, args ...string) {
	t.Helper()
	logged := filepath.Join(t.TempDir(), "log")
	out, err := os.Create(logged)
	require.NoError(t, err)
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		out.Close()
		if text, err := os.ReadFile(logged); t.Failed() && err == nil {
			t.Logf("%s says:\n%s", program, text)
		}
	})
	deadline := time.Now().Add(time.Minute)
	for {
		response, err := http.Get(ready)
		if err == nil {
			response.Body.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("%s ended", program)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer: %v", program, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// get sends a request to a proxy. It returns the status, the first value of a header, and whether
// there is a Retry-After.
func get(t *testing.T, url, left string) string {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	text := fmt.Sprint(response.StatusCode)
	if value := response.Header.Get(left); value != "" {
		text += " left " + strings.Split(value, ",")[0]
	}
	if response.Header.Get("Retry-After") != "" {
		text += " retry"
	}
	return text
}

func port(n int) string { return fmt.Sprintf("127.0.0.1:%d", n) }
