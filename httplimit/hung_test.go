package httplimit_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestMiddleware_HungRedis_DelaysOneRequest at low traffic: the mode decides all others at once, and the end of the outage is noticed
// between requests.
func TestMiddleware_HungRedis_DelaysOneRequest(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		var mu sync.Mutex
		var news []bool
		heard := func() []bool {
			mu.Lock()
			defer mu.Unlock()
			return news
		}
		handler := httplimit.Middleware(perIP(client, hour(100)), httplimit.OnFailure(httplimit.Open), httplimit.OnStoreChange(func(up bool, _ error) {
			mu.Lock()
			defer mu.Unlock()
			news = append(news, up)
		}))(new(ok))
		require.Equal(b, 200, serve(handler, request()).Code)
		redistest.Pass(time.Second)
		b.Latency.Store(int64(time.Second))
		var waited []time.Duration
		for range 30 {
			begin := time.Now()
			require.Equal(b, 200, serve(handler, request()).Code)
			waited = append(waited, time.Since(begin))
			redistest.Pass(time.Second)
		}
		assert.Equal(b, httplimit.DefaultDeadline, waited[0])
		for _, d := range waited[1:] {
			assert.Zero(b, d)
		}
		assert.Equal(b, []bool{false}, heard())
		b.Latency.Store(0)
		redistest.Pass(5 * time.Second)
		assert.Equal(b, []bool{false, true}, heard(), "without a request")
		assert.NotEmpty(b, serve(handler, request()).Header().Get("RateLimit"))
	})
}

// TestTransport_CloseIdleConnections_ReachesBase: http.Client.CloseIdleConnections finds the method.
func TestTransport_CloseIdleConnections_ReachesBase(t *testing.T) {
	base := &closing{}
	one := fake(func(context.Context, int64) (rratelimiter.Decision, error) {
		return rratelimiter.Decision{Allowed: true}, nil
	})
	(&http.Client{Transport: httplimit.Transport(base, httplimit.All(one))}).CloseIdleConnections()
	assert.Equal(t, 1, base.closed)
	(&http.Client{Transport: httplimit.Transport(upstream(fine), httplimit.All(one))}).CloseIdleConnections() // a base without the method
}

// closing is a RoundTripper that closes idle connections.
type closing struct {
	http.RoundTripper
	closed int
}

func (c *closing) CloseIdleConnections() { c.closed++ }
