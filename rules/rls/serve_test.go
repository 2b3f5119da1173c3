package rls_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rules/internal/rulestest"
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
		require.NoError(t, redistest.Err(conn.Write([]byte(healthRequest))))
		time.Sleep(time.Minute)
		assert.Error(t, redistest.Err(conn.Read(make([]byte, 1))))
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

// TestServe_SilentConnections_DoNotDelayTheEnd: of clients that connect and send nothing. One that has begun to send
// ends with the grace period.
func TestServe_SilentConnections_DoNotDelayTheEnd(t *testing.T) {
	for sent, most := range map[string]time.Duration{"": time.Second, "PRI": 6 * time.Second} {
		guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
			overGRPC, overHTTP := redistest.NewListener(), redistest.NewListener()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- rls.Serve(ctx, rls.Config{Client: client, GRPC: overGRPC, HTTP: overHTTP, Log: quiet()})
			}()
			for _, l := range []*redistest.Listener{overGRPC, overHTTP} {
				conn := l.Dial()
				defer conn.Close()
				go func() { _, _ = conn.Write([]byte(sent)) }()
			}
			synctest.Wait()
			begin := time.Now()
			cancel()
			require.NoError(t, <-ended)
			assert.Less(t, time.Since(begin), most, "%q", sent)
		})
	}
}

// TestServe_ConnectionsDuringTheEnd_AreClosed: else each may delay it by the grace period.
func TestServe_ConnectionsDuringTheEnd_AreClosed(t *testing.T) {
	memory := redistest.NewListener()
	clients := make(chan net.Conn, 1)
	go func() { clients <- memory.Dial() }()
	require.NoError(t, redistest.Err(rls.Ending(memory).Accept()))
	client := <-clients
	_ = client.SetReadDeadline(time.Now().Add(5 * time.Second)) // it fails on one that is closed
	assert.ErrorIs(t, redistest.Err(client.Read(make([]byte, 1))), io.EOF)
}

// Another error of Redis does not change the health.
func TestServe_PasswordRefused_HealthReportsIt(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		memory, log := redistest.NewListener(), new(redistest.Log)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- rls.Serve(ctx, rls.Config{Client: client, HTTP: memory, Log: slog.New(slog.NewTextHandler(log, nil))})
		}()
		for _, c := range []struct {
			failure string
			want    int
		}{
			{"LOADING", 200}, {"WRONGPASS invalid", 500}, {"WRONGPASS invalid", 500}, {"", 200},
			{"NOAUTH Authentication required.", 500}, {"LOADING", 200},
		} {
			f.Redis.SetError(c.failure)
			time.Sleep(3 * time.Second)
			conn := memory.Dial()
			require.NoError(t, redistest.Err(conn.Write([]byte(healthRequest))))
			assert.Equal(t, c.want, answered(t, conn), c.failure)
			conn.Close()
		}
		assert.Equal(t, 2, strings.Count(log.String(), "Redis refuses the password"))
		assert.Equal(t, 2, strings.Count(log.String(), "Redis accepts the password"))
		cancel()
		assert.NoError(t, <-ended)
	})
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
	soon := redistest.Timeout(t, 100*time.Millisecond)
	require.Equal(t, codes.DeadlineExceeded, status.Code(begin(soon)))
	require.NoError(t, s.Close())
	require.NoError(t, s.stop())
}

// TestServe_LargeRequest_IsRefusedBeforeItIsDecoded: decoded, a request of 4 MiB takes hundreds of them.
func TestServe_LargeRequest_IsRefusedBeforeItIsDecoded(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s := run(t, rls.Config{Client: client, Path: folder(t, simple)})
	for descriptors, want := range map[int]codes.Code{
		16<<10 - 10: codes.InvalidArgument, 2<<20 - 16: codes.ResourceExhausted,
	} {
		large := new(emptypb.Empty)
		large.ProtoReflect().SetUnknown(append([]byte("\x0a\x04shop"), bytes.Repeat([]byte{0x12, 0x00}, descriptors)...))
		var err error
		took := rulestest.Allocated(func() {
			err = s.Invoke(t.Context(), ratelimit.RateLimitService_ShouldRateLimit_FullMethodName, large,
				new(ratelimit.RateLimitResponse))
		})
		assert.Equal(t, want, status.Code(err), "%v", err)
		assert.Less(t, took, uint64(100<<20), "bytes, with those of the client and of gRPC")
	}
}

func TestShouldRateLimit_TooManyParts_IsInvalid(t *testing.T) {
	client, _ := guardtest.Connect(t)
	s := newServer(t, client, simple)
	for ask, want := range map[string]codes.Code{
		"shop" + strings.Repeat(" | none=1", 256): codes.OK,
		"shop" + strings.Repeat(" | none=1", 257): codes.InvalidArgument,
		"shop |" + strings.Repeat(" none=1", 64):  codes.OK,
		"shop |" + strings.Repeat(" none=1", 65):  codes.InvalidArgument,
	} {
		_, err := s.ShouldRateLimit(t.Context(), request(t, ask))
		assert.Equal(t, want, status.Code(err), "%v", err)
	}
}

// TestHandler_LargeJSON_IsRefused with 413, by the number of bytes, of descriptors and of entries.
func TestHandler_LargeJSON_IsRefused(t *testing.T) {
	client, _ := guardtest.Connect(t)
	handler := newServer(t, client, simple).Handler()
	for name, body := range map[string]string{
		"descriptors": `{"domain":"shop","descriptors":[{}` + strings.Repeat(",{}", 256) + `]}`,
		"entries":     `{"domain":"shop","descriptors":[{"entries":[{}` + strings.Repeat(",{}", 64) + `]}]}`,
		"bytes":       `{"domain":"shop","descriptors":[{}` + strings.Repeat(",{}", 4<<20/3-20) + `]}`,
	} {
		took := rulestest.Allocated(func() {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/json", strings.NewReader(body)))
			assert.Equal(t, http.StatusRequestEntityTooLarge, w.Code, name)
		})
		assert.Less(t, took, uint64(16<<20), name)
	}
}
