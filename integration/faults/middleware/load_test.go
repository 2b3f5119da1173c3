// Package middleware tests httplimit under load while a real Redis fails. The guard behind it is that
// of grpclimit, too.
package middleware

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

const (
	clients  = 20
	keys     = 4
	permits  = 100
	interval = time.Second
	share    = 0.1
	deadline = 500 * time.Millisecond
	slack    = 500 * time.Millisecond // for a busy machine
	greeting = "hello"
)

// decision is the result of one request, and the time that it took.
type decision struct {
	at     time.Time
	result limit.Result
	local  bool
	key    string
	took   time.Duration
}

// change is one call of the callback.
type change struct {
	at time.Time
	up bool
}

// load is clients that send requests to a server.
type load struct {
	t    *testing.T
	stop context.CancelFunc
	done sync.WaitGroup

	mu        sync.Mutex
	decisions []decision
	changes   []change
}

// start starts a server with a middleware of a failure mode on a Redis, and its clients.
func start(t *testing.T, addr string, mode limit.FailureMode) *load {
	redis := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{addr}})
	l := &load{t: t}
	perClient := httplimit.Each(rratelimiter.New(redis), "web", httplimit.ByHeader("X-Client"),
		limit.SlidingWindow{Permits: permits, Interval: interval})
	limited := httplimit.Middleware(perClient, httplimit.OnFailure(mode), httplimit.Deadline(deadline),
		httplimit.OnRedisChange(l.change), httplimit.Report(l.decide))
	handler := limited(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, greeting) }))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), arrivalKey{}, time.Now())))
	}))
	t.Cleanup(server.Close)

	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	for i := range clients {
		l.done.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				l.request(client, server.URL, fmt.Sprint(i%keys))
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	return l
}

type arrivalKey struct{}

// change records a change of the store's state.
func (l *load) change(_ string, up bool, err error) {
	assert.Equal(l.t, up, err == nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes = append(l.changes, change{time.Now(), up})
}

// decide records a decision. The context has the time when the request arrived.
func (l *load) decide(r *http.Request, o limit.Outcome) {
	now := time.Now()
	took := now.Sub(r.Context().Value(arrivalKey{}).(time.Time))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.decisions = append(l.decisions, decision{now, o.Result, o.Local, r.Header.Get("X-Client"), took})
}

// request sends one request, and checks the status of the response.
func (l *load) request(client *http.Client, url, key string) {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(l.t, err)
	r.Header.Set("X-Client", key)
	resp, err := client.Do(r)
	if !assert.NoError(l.t, err) {
		return
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	assert.NoError(l.t, err)
	switch resp.StatusCode {
	case http.StatusOK:
		assert.Equal(l.t, greeting, string(body))
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
	default:
		assert.Fail(l.t, "status", "%s: %s", resp.Status, body)
	}
}

// await waits until the callback reports that Redis is up, or down.
func (l *load) await(up bool) time.Time {
	l.t.Helper()
	var at time.Time
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		if n := len(l.changes); n > 0 && l.changes[n-1].up == up {
			at = l.changes[n-1].at
			return true
		}
		return false
	}, 30*time.Second, 5*time.Millisecond, "the callback did not report that Redis is up: %v", up)
	return at
}

// end ends the load and returns the decisions, in order.
func (l *load) end() []decision {
	l.stop()
	l.done.Wait()
	return l.decisions
}
