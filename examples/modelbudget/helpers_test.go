package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

const (
	requests = 10
	tokens   = 2000
	output   = 100 // of an answer whose request sets no bound
	mostBody = 4096
)

// proxy serves on loopback. The clock of its limits stands still, so buckets do not fill.
type proxy struct {
	*httptest.Server
	t      *testing.T
	redis  *miniredis.Miniredis
	client *rratelimiter.Client
	log    *redistest.Log
}

// behind starts a proxy in front of an API.
func behind(t *testing.T, api http.Handler, args ...string) *proxy {
	t.Helper()
	upstream := httptest.NewServer(api)
	t.Cleanup(upstream.Close)
	return start(t, upstream.URL, args...)
}

func start(t *testing.T, upstream string, args ...string) *proxy {
	t.Helper()
	c, err := parseConfig(append([]string{"-requests", "10", "-tokens", "2000", "-output", "100", "-max-body", "4096",
		"-redis-timeout", "1m"}, args...), io.Discard)
	require.NoError(t, err)
	c.upstream, err = url.Parse(upstream) // the built-in users apply
	require.NoError(t, err)
	p := &proxy{t: t, log: new(redistest.Log)}
	now := time.Now()
	p.client, p.redis = guardtest.Connect(t, rratelimiter.WithClock(func() time.Time { return now }))
	p.Server = httptest.NewUnstartedServer(nil)
	p.Config = newServer(newHandler(p.client, c, slog.New(slog.NewTextHandler(p.log, nil))), c)
	p.Start()
	t.Cleanup(p.Close)
	return p
}

// left returns the remaining requests and tokens of alice.
func (p *proxy) left() [2]int64 {
	var left [2]int64
	for i, l := range []*limit.Limiter{
		limit.New(p.client, "model:requests:alice",
			limit.TokenBucket{Capacity: requests, Refill: requests, Interval: time.Minute}),
		limit.New(p.client, "model:tokens:alice", limit.TokenBucket{Capacity: tokens, Refill: tokens, Interval: time.Minute}),
	} {
		d, err := l.Peek(p.t.Context())
		require.NoError(p.t, err)
		left[i] = d[0].Remaining
	}
	return left
}

// cost returns the used requests and tokens of alice.
func (p *proxy) cost() [2]int64 {
	left := p.left()
	return [2]int64{requests - left[0], tokens - left[1]}
}

// ask sends a request by alice.
func (p *proxy) ask(path, body string) (*http.Response, string) {
	p.t.Helper()
	return p.send(p.request(path, strings.NewReader(body)))
}

func (p *proxy) request(path string, body io.Reader) *http.Request {
	r, err := http.NewRequest(http.MethodPost, p.URL+path, body)
	require.NoError(p.t, err)
	r.Header.Set("Authorization", "Bearer sk-alice")
	return r
}

func (p *proxy) send(r *http.Request) (*http.Response, string) {
	p.t.Helper()
	resp, err := p.Client().Transport.RoundTrip(r)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return resp, string(text)
}

// estimateOf returns the estimate of a body without a bound.
func estimateOf(body string) int64 { return int64(len(body))/4 + 1 + output }
