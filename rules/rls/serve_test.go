package rls_test

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rules/rls"
)

// servedHTTP serves a server's HTTP side as Serve does, and returns what dials it.
func servedHTTP(f *redistest.Fixture, client *rratelimiter.Client) (dial func() net.Conn) {
	memory := redistest.NewListener()
	server, listener := rls.HTTPServer(newServer(f, client, "domain: web\n"), memory)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	f.Cleanup(func() {
		server.Close()
		assert.ErrorIs(f, <-ended, http.ErrServerClosed)
	})
	return func() net.Conn {
		conn := memory.Dial()
		f.Cleanup(func() { conn.Close() })
		return conn
	}
}

const healthRequest = "GET /healthcheck HTTP/1.1\r\nHost: x\r\n\r\n"

// answered reads a response, and reports its status.
func answered(t testing.TB, conn net.Conn) int {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	response.Body.Close()
	return response.StatusCode
}

// A client that sends its request a byte at a time does not keep its connection.
func TestServeHTTP_SlowClient_LosesItsConnection(t *testing.T) {
	for name, text := range map[string]string{
		"body":   "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
		"header": "POST /json HTTP/1.1\r\nHost: x\r\nX-",
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				conn := servedHTTP(f, client)()
				begin := time.Now()
				go func() {
					for err := error(nil); err == nil; text = "x" {
						_, err = conn.Write([]byte(text))
						time.Sleep(time.Second)
					}
				}()
				for buffer := make([]byte, 1000); ; {
					if _, err := conn.Read(buffer); err != nil {
						break
					}
				}
				assert.LessOrEqual(t, time.Since(begin), 6*time.Second)
			})
		})
	}
}

// A client that does not read its answer does not keep its connection.
func TestServeHTTP_ClientThatDoesNotRead_LosesItsConnection(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		conn := servedHTTP(f, client)()
		_, err := conn.Write([]byte(healthRequest))
		require.NoError(t, err)
		time.Sleep(time.Minute)
		_, err = conn.Read(make([]byte, 1))
		assert.Error(t, err)
	})
}

// Beyond the bound a connection waits until another one ends: slow ones after five seconds, idle ones
// of proxies after ten.
func TestServeHTTP_MoreConnectionsThanTheBound_Wait(t *testing.T) {
	for request, want := range map[string]time.Duration{
		"GET /healthcheck HTTP/1.1\r\n": 5 * time.Second, healthRequest: 10 * time.Second,
	} {
		guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
			dial := servedHTTP(f, client)
			begin := time.Now()
			for range 1024 {
				conn := dial()
				go func() { _, _ = conn.Write([]byte(request)) }()
				if request == healthRequest {
					assert.Equal(t, 200, answered(t, conn))
				}
			}
			last := dial()
			go func() { _, _ = last.Write([]byte(healthRequest)) }()
			assert.Equal(t, 200, answered(t, last))
			assert.Equal(t, want, time.Since(begin))
		})
	}
}

func TestServeHTTP_LargeHeader_IsRefused(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		for size, want := range map[int]int{60 << 10: 200, 80 << 10: 431} {
			conn := servedHTTP(f, client)()
			go func() {
				large := "X-Large: " + strings.Repeat("x", size) + "\r\n\r\n"
				_, _ = conn.Write([]byte("GET /healthcheck HTTP/1.1\r\nHost: x\r\n" + large))
			}()
			assert.Equal(t, want, answered(t, conn))
		}
	})
}

func TestServe_Drain_ReportsNotServingAndAnswers(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s := run(t, rls.Config{Client: client, Path: folder(t, simple), Drain: time.Hour}) // until the test has seen it
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, s.status(t, ""))
	s.cancel()
	require.Eventually(t, func() bool { return s.status(t, "") == grpc_health_v1.HealthCheckResponse_NOT_SERVING },
		9*time.Second, 10*time.Millisecond)
	code, _ := send(t, "GET", s.http+"/healthcheck", "")
	assert.Equal(t, http.StatusInternalServerError, code)
	envoy := ratelimit.NewRateLimitServiceClient(s.dial(t))
	answer, err := envoy.ShouldRateLimit(t.Context(), request(t, "shop | user=ann"))
	require.NoError(t, err)
	assert.Equal(t, ratelimit.RateLimitResponse_OK, answer.GetOverallCode())
	select {
	case <-s.ended:
		t.Fatalf("it has ended: %v", s.err)
	default:
	}

	s.HTTP.Close() // ends the drain, since no request can arrive over HTTP
	assert.ErrorIs(t, s.stop(), net.ErrClosed)
}

func TestServe_Drain_Ends(t *testing.T) {
	client, _ := guardtest.Connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begin := time.Now()
	require.NoError(t,
		rls.Serve(ctx, rls.Config{Client: client, Path: folder(t, simple), Log: quiet(), Drain: 50 * time.Millisecond}))
	assert.GreaterOrEqual(t, time.Since(begin), 50*time.Millisecond)
	assert.Error(t, rls.Serve(ctx, rls.Config{Client: client, Path: folder(t, simple), Drain: -1}))
}

// A client that begins requests and does not end them holds a bounded number of them on a
// connection.
func TestServeGRPC_RequestsWithoutAMessage_AreBounded(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s := run(t, rls.Config{Client: client, Path: folder(t, simple)})
	begin := func(ctx context.Context) error {
		method := ratelimit.RateLimitService_ShouldRateLimit_FullMethodName
		_, err := s.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, method)
		return err
	}
	for range 1024 {
		require.NoError(t, begin(t.Context()))
	}
	soon, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer end()
	require.Equal(t, codes.DeadlineExceeded, status.Code(begin(soon)))
	require.NoError(t, s.Close())
	require.NoError(t, s.stop())
}

func TestServe_ReloadSignal_ReadsTheFilesAgain(t *testing.T) {
	client, _ := guardtest.Connect(t)
	var out redistest.Log
	reload := make(chan os.Signal, 1)
	s := run(t, rls.Config{
		Client: client, Path: folder(t, simple), Log: slog.New(slog.NewTextHandler(&out, nil)), Reload: reload,
	})
	logged := func(text string, n int) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Count(out.String(), text) >= n }, 20*time.Second, time.Millisecond)
	}
	logged("configuration in force", 1)
	reload <- syscall.SIGHUP
	logged("configuration in force", 2)
	require.NoError(t, os.WriteFile(filepath.Join(s.Path, "0.yaml"), []byte("domain: ["), 0o600))
	for n := range 3 { // the change of the file may be one
		reload <- syscall.SIGHUP
		logged("the configuration is wrong", n+1)
	}
	require.NoError(t, s.stop())
}
