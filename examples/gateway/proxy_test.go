package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// A request that does not reach the upstream releases its permit; one that fails there does not.
func TestProxy_UpstreamDown_ReleasesThePermit(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	listener.Close()
	g := start(t, "http://"+address, "-second", "3")
	for range 10 {
		resp, body := g.get(t, "/")
		require.Equal(t, 502, resp.StatusCode)
		assert.Equal(t, "Bad Gateway\n", body)
	}

	listener, err = net.Listen("tcp", address)
	require.NoError(t, err)
	upstream := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/broken":
			w.WriteHeader(500)
		case "/gone":
			panic(http.ErrAbortHandler)
		}
	})}
	go func() { _ = upstream.Serve(listener) }()
	defer upstream.Close()
	var got []int
	for _, path := range []string{"/", "/broken", "/gone", "/"} {
		resp, _ := g.get(t, path)
		got = append(got, resp.StatusCode)
	}
	assert.Equal(t, []int{200, 500, 502, 429}, got)
}

func TestProxy_SlowUpstream_Is504AndCounts(t *testing.T) {
	end := make(chan struct{})
	g := behind(t, func(http.ResponseWriter, *http.Request) { <-end }, "-second", "1", "-upstream-timeout", "50ms")
	defer close(end)
	resp, _ := g.get(t, "/")
	assert.Equal(t, 504, resp.StatusCode)
	resp, _ = g.get(t, "/")
	assert.Equal(t, 429, resp.StatusCode)
}

// With or without a Content-Length.
func TestProxy_Bodies_ArriveUpToTheLimit(t *testing.T) {
	const most = 1 << 20
	g := behind(t, func(w http.ResponseWriter, r *http.Request) {
		hash := sha256.New()
		n, err := io.Copy(hash, r.Body)
		if err == nil {
			fmt.Fprintf(w, "%d %x", n, hash.Sum(nil))
		}
	}, "-max-body", fmt.Sprint(most), "-second", "100")
	for size, want := range map[int]int{0: 200, 1: 200, most: 200, most + 1: 413, 4 * most: 413} {
		for _, chunked := range []bool{false, true} {
			body := bytes.Repeat([]byte("0123456789abcde"), size/15+1)[:size]
			var reader io.Reader = bytes.NewReader(body)
			if chunked {
				reader = struct{ io.Reader }{reader} // net/http does not know its length
			}
			r, err := http.NewRequest(http.MethodPost, g.url, reader)
			require.NoError(t, err)
			r.Header.Set("Expect", "100-continue") // avoid a write that is not read
			resp, err := (&http.Transport{ExpectContinueTimeout: time.Minute, DisableKeepAlives: true}).RoundTrip(r)
			if want == 413 && chunked && err != nil {
				continue // a client that still writes may not see the response
			}
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, want, resp.StatusCode, "%d bytes, chunked: %v", size, chunked)
			if want == 200 {
				assert.Equal(t, fmt.Sprintf("%d %x", size, sha256.Sum256(body)), string(text))
			}
		}
	}
}

func TestProxy_EarlyHints_KeepRateLimitHeaders(t *testing.T) {
	g := behind(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("X-Own", "1")
		w.WriteHeader(http.StatusAccepted)
	})
	early := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { early = code; return nil },
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url, nil)
	require.NoError(t, err)
	resp, _ := roundTrip(t, http.DefaultTransport, r)
	assert.Equal(t, http.StatusEarlyHints, early)
	assert.Equal(t, http.StatusAccepted, resp.StatusCode)
	assert.Equal(t, []string{`"second";q=10;w=1, "minute";q=100;w=60`}, resp.Header["Ratelimit-Policy"])
	assert.Regexp(t, `^"second";r=9(;t=1)?, "minute";r=99;t=(59|60)$`, resp.Header.Get("Ratelimit"))
	assert.Equal(t, []string{"1"}, resp.Header["X-Own"])
}

func TestProxy_ServerSentEvents_ArriveOneByOne(t *testing.T) {
	next := make(chan int)
	g := behind(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for i := range next {
			fmt.Fprintf(w, "data: %d\n\n", i)
			w.(http.Flusher).Flush()
		}
	})
	end := sync.OnceFunc(func() { close(next) })
	defer end()
	resp, err := http.Post(g.url, "text/plain", strings.NewReader("go"))
	require.NoError(t, err)
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for i := range 4 {
		next <- i // after the client received the previous one
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprintf("data: %d\n", i), line)
		_, err = lines.ReadString('\n')
		require.NoError(t, err)
	}
	end()
	_, err = lines.ReadByte()
	assert.Equal(t, io.EOF, err)
}

func TestProxy_WebSocket_IsOneRequest(t *testing.T) {
	g := behind(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "websocket", r.Header.Get("Upgrade"))
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if assert.NoError(t, err) {
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(conn, buffered)
		}
	}, "-second", "1")
	upgrade := "GET /chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	conn := g.dial(t)
	reader := bufio.NewReader(conn)
	resp := exchange(t, conn, reader, upgrade)
	require.Equal(t, 101, resp.StatusCode)
	assert.Regexp(t, `^"second";r=0(;t=1)?, "minute";r=99;t=(59|60)$`, resp.Header.Get("Ratelimit"))
	for range 3 {
		fmt.Fprintln(conn, "hello")
		line, err := reader.ReadString('\n')
		require.NoError(t, err)
		assert.Equal(t, "hello\n", line)
	}
	second := g.dial(t)
	assert.Equal(t, 429, exchange(t, second, bufio.NewReader(second), upgrade).StatusCode)
	conn.Close()
	require.Eventually(t, func() bool { return strings.Contains(g.log.String(), "status=101") }, time.Minute,
		time.Millisecond)
}

func TestProxy_ForwardProxyRequests_AreNotForwarded(t *testing.T) {
	g := behind(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
	for request, want := range map[string]string{
		"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n":                   "405 Method Not Allowed",
		"GET http://example.org/x HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n": "200 OK",
	} {
		conn := g.dial(t)
		assert.Equal(t, want, exchange(t, conn, bufio.NewReader(conn), request).Status)
	}
}

// 500, or an aborted response if it has begun.
func TestRecovered_Panic_Is500(t *testing.T) {
	log := new(redistest.Log)
	handler := chain(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			fmt.Fprint(w, "begun")
			_ = http.NewResponseController(w).Flush()
		}
		panic("oops")
	}), recovered(logTo(log)))
	server := httptest.NewServer(handler)
	defer server.Close()
	resp, err := http.Get(server.URL)
	require.NoError(t, err)
	resp.Body.Close()
	assert.Equal(t, 500, resp.StatusCode)
	assert.Contains(t, log.String(), "oops")
	assert.Contains(t, log.String(), "proxy_test.go")
	resp, err = http.Get(server.URL + "/begun")
	require.NoError(t, err)
	_, err = io.ReadAll(resp.Body)
	assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
	resp.Body.Close()
}
