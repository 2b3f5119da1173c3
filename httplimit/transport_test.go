package httplimit_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

// closing is a body, or a RoundTripper with idle connections. It counts how often it is closed.
type closing struct {
	io.Reader
	http.RoundTripper
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

func (c *closing) CloseIdleConnections() { c.closed++ }

// http.RoundTripper demands that the body is closed.
func TestTransport_NotSent_ClosesTheBody(t *testing.T) {
	body := &closing{Reader: strings.NewReader("body")}
	r, err := http.NewRequest(http.MethodPost, "http://one", body)
	require.NoError(t, err)
	none := func(*http.Request) (httplimit.Limiter, error) { return new(limit.Limiter), nil }
	_, err = httplimit.Transport(nil, none).RoundTrip(r)
	assert.ErrorIs(t, err, httplimit.ErrNotSent)
	assert.Equal(t, 1, body.closed)
}

// http.Client.CloseIdleConnections finds the method.
func TestTransport_CloseIdleConnections_ReachesBase(t *testing.T) {
	base := &closing{}
	(&http.Client{Transport: httplimit.Transport(base, httplimit.All(grants))}).CloseIdleConnections()
	assert.Equal(t, 1, base.closed)
	// A base without the method.
	(&http.Client{Transport: httplimit.Transport(roundTrip(nil), httplimit.All(grants))}).CloseIdleConnections()
}
