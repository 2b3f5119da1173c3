package httplimit_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
)

// A hundred clients with connections of their own share ten keys.
func TestMiddleware_ManyClientsOnSockets_GetTheirPermits(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			const permits = 90
			client, _ := guardtest.Connect(t, rratelimiter.WithDenialCache(time.Hour))
			perKey := httplimit.Each(client, "web", httplimit.ByHeader("X-Key"), hour(permits))
			var served, conns atomic.Int64
			handler := httplimit.Middleware(perKey, unhurried)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				served.Add(1)
				assert.Equal(t, protocol, r.Proto)
				fmt.Fprint(w, "hello")
			}))
			server := httptest.NewUnstartedServer(handler)
			server.EnableHTTP2 = protocol == "HTTP/2.0"
			server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					conns.Add(1)
				}
			}
			if server.EnableHTTP2 {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()

			guardtest.TestManyClients(t, 12, permits, func(key string) (send func() bool, hangUp func()) {
				transport := server.Client().Transport.(*http.Transport).Clone()
				return func() bool {
					r, err := http.NewRequest(http.MethodGet, server.URL, nil)
					if !assert.NoError(t, err) {
						return false
					}
					r.Header.Set("X-Key", key)
					resp, err := transport.RoundTrip(r)
					if !assert.NoError(t, err) {
						return false
					}
					body, _ := io.ReadAll(resp.Body)
					resp.Body.Close()
					if resp.StatusCode == http.StatusOK {
						return assert.Equal(t, "hello", string(body))
					}
					assert.Equal(t, http.StatusTooManyRequests, resp.StatusCode)
					assert.Regexp(t, "^3[56][0-9][0-9]$", resp.Header.Get("Retry-After"))
					assert.Contains(t, string(body), `"violated-policies":["hour"]`)
					return false
				}, transport.CloseIdleConnections
			})
			assert.EqualValues(t, guardtest.Keys*permits, served.Load())
			// net/http reuses connections. It drops one if its writer has not finished after 50 ms,
			// as on a busy machine.
			assert.Less(t, conns.Load(), int64(2*guardtest.Clients), "connections")
		})
	}
}

// Flush, Hijack and the calls of http.ResponseController work.
func TestMiddleware_ResponseWriter_IsThatOfTheServer(t *testing.T) {
	client, _ := guardtest.Connect(t)
	limited := httplimit.Middleware(perIP(client, hour(100)), unhurried)
	mux := http.NewServeMux()
	mux.Handle("/flush", limited(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		controller := http.NewResponseController(w)
		assert.NoError(t, controller.EnableFullDuplex())
		fmt.Fprintln(w, "first")
		w.(http.Flusher).Flush()
		assert.NoError(t, controller.SetWriteDeadline(time.Now().Add(time.Minute)))
		assert.NoError(t, controller.SetReadDeadline(time.Now().Add(time.Minute)))
		// The client sends a line when it has the first one. In full duplex, the server panics now
		// and then if the handler does not read the whole body.
		rest, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		_, err = w.Write(rest)
		assert.NoError(t, err)
	})))
	mux.Handle("/hijack", limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if assert.NoError(t, err) {
			defer conn.Close()
			fmt.Fprint(buffered, "HTTP/1.1 101 Switching Protocols\r\n\r\nhijacked")
			buffered.Flush()
		}
	})))
	server := httptest.NewServer(mux)
	defer server.Close()

	reader, writer := io.Pipe()
	resp, err := http.Post(server.URL+"/flush", "text/plain", reader)
	require.NoError(t, err)
	lines := bufio.NewReader(resp.Body)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "first\n", line)
	fmt.Fprintln(writer, "second")
	writer.Close()
	line, err = lines.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "second\n", line)
	resp.Body.Close()

	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "GET /hijack HTTP/1.1\r\nHost: x\r\n\r\n")
	all, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.True(t, strings.HasSuffix(string(all), "hijacked"), "%s", all)
}

// A peer on a unix socket has no address, even if the name of its socket is one.
func TestByIP_UnixSocket_HasNoAddress(t *testing.T) {
	t.Chdir(t.TempDir())
	listener, err := net.Listen("unix", "server")
	require.NoError(t, err)
	var keyed atomic.Bool
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "192.0.2.1", r.RemoteAddr)
		key, err := httplimit.ByIP()(r)
		assert.Empty(t, key)
		assert.ErrorContains(t, err, "unix")
		keyed.Store(true)
	})}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	conn, err := net.DialUnix("unix", &net.UnixAddr{Name: "192.0.2.1"}, listener.Addr().(*net.UnixAddr))
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	_, err = io.ReadAll(conn)
	require.NoError(t, err)
	assert.True(t, keyed.Load())
}
