package httplimit_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/bubble"
	"github.com/rratelimiter/rratelimiter/limit"
)

// inBubble runs a test with a Redis in memory and a clock of its own. It fails where a goroutine is left.
func inBubble(t *testing.T, test func(b *bubble.Bubble, client *rratelimiter.Client)) {
	bubble.Run(t, func(b *bubble.Bubble) {
		client := rratelimiter.New(b.Conn)
		_, err := limit.New(client, "warm", limit.FixedWindow{Permits: 1, Interval: time.Second}).Take(b.Context(), 1)
		require.NoError(b, err) // connected
		test(b, client)
	})
}

// hour is a window of so many permits.
func hour(permits int64) limit.Policy {
	return limit.FixedWindow{Permits: permits, Interval: time.Hour}
}

// perIP limits each client.
func perIP(client *rratelimiter.Client, policies ...limit.Policy) func(*http.Request) (httplimit.Limiter, error) {
	return httplimit.Each(client, "web", httplimit.ByIP(), policies...)
}

// serve sends a request through a handler.
func serve(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w
}

func request() *http.Request { return httptest.NewRequest(http.MethodGet, "/", nil) }

// ok is a handler that counts.
type ok struct{ served int }

func (h *ok) ServeHTTP(http.ResponseWriter, *http.Request) { h.served++ }

// fake is a limiter of another kind.
type fake func(ctx context.Context, permits int64) (rratelimiter.Decision, error)

func (f fake) Take(ctx context.Context, permits int64) (rratelimiter.Decision, error) {
	return f(ctx, permits)
}
