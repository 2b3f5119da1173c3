package main

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// gateway serves on loopback, as by serve. The clock of its limits stands still.
type gateway struct {
	url   string
	redis *miniredis.Miniredis
	m     *metrics
	log   *redistest.Log
}

// start starts a gateway with some flags and a -redis-timeout for busy machines.
func start(t *testing.T, upstream string, args ...string) *gateway {
	t.Helper()
	c, err := parseConfig(append([]string{"-upstream", upstream, "-redis-timeout", "1m"}, args...), io.Discard)
	require.NoError(t, err)
	m, err := newMetrics()
	require.NoError(t, err)
	now := time.Now()
	client, redis := guardtest.Connect(t, rratelimiter.WithClock(func() time.Time { return now }),
		rratelimiter.WithObserver(m.telemetry.Observer()))
	g := &gateway{redis: redis, m: m, log: new(redistest.Log)}
	log := slog.New(slog.NewTextHandler(g.log, nil))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := newServer(newHandler(client, c, g.m, log), c, log)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })
	g.url = "http://" + listener.Addr().String()
	return g
}

// behind starts an upstream and a gateway in front of it.
func behind(t *testing.T, upstream http.HandlerFunc, args ...string) *gateway {
	server := httptest.NewServer(upstream)
	t.Cleanup(server.Close)
	return start(t, server.URL, args...)
}

// get sends a request with headers (name, value, ...) and returns its response and body.
func (g *gateway) get(t *testing.T, path string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, g.url+path, nil)
	require.NoError(t, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return roundTrip(t, http.DefaultTransport, r)
}

func roundTrip(t *testing.T, transport http.RoundTripper, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := transport.RoundTrip(r)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp, string(body)
}

// dial opens a connection to the gateway, for requests that http.Client does not send.
func (g *gateway) dial(t *testing.T) net.Conn {
	t.Helper()
	u, err := url.Parse(g.url)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", u.Host)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// exchange sends a request as it is, and returns its response.
func exchange(t *testing.T, conn net.Conn, reader *bufio.Reader, request string) *http.Response {
	t.Helper()
	fmt.Fprint(conn, request)
	resp, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	return resp
}
