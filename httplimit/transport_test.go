package httplimit_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// closed is a body that records Close.
type closed struct {
	io.Reader
	closed bool
}

func (c *closed) Close() error { c.closed = true; return nil }

// http.RoundTripper demands that the body is closed.
func TestTransport_NotSent_ClosesTheBody(t *testing.T) {
	body := &closed{Reader: strings.NewReader("body")}
	r, err := http.NewRequest(http.MethodPost, "http://one", body)
	require.NoError(t, err)
	_, err = httplimit.Transport(nil, httplimit.All(new(limit.Limiter))).RoundTrip(r)
	assert.ErrorIs(t, err, httplimit.ErrNotSent)
	assert.True(t, body.closed)
}

// The fake clock begins at 2000-01-01 00:00 UTC.
func TestTransport_RetryAfter_PausesUntilThen(t *testing.T) {
	for name, c := range map[string]struct {
		after string
		pause time.Duration
	}{
		"seconds":           {"7", 7 * time.Second},
		"a date":            {"Sat, 01 Jan 2000 00:00:30 GMT", 30 * time.Second},
		"a past date":       {"Sat, 01 Jan 1999 00:00:30 GMT", 0},
		"a distant date":    {"Mon, 01 Jan 2001 00:00:00 GMT", time.Hour},
		"more than an hour": {"3601", time.Hour},
		"more than a int64": {"99999999999999999999", time.Hour},
		"zero":              {"0", 0},
		"below zero":        {"-7", 0},
		"no number":         {"soon", 0},
		"by server's clock": {"Sun, 02 Jan 2005 00:00:05 GMT", 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
				response := &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {c.after}}, Body: http.NoBody}
				if name == "by server's clock" {
					response.Header.Set("Date", "Sun, 02 Jan 2005 00:00:00 GMT")
				}
				base := roundTrip(func(*http.Request) (*http.Response, error) { return response, nil })
				transport := httplimit.Transport(base, perIP(client, hour(2)))
				begin := time.Now()
				for range 2 {
					_, err := transport.RoundTrip(request().WithContext(t.Context()))
					require.NoError(t, err)
				}
				assert.Equal(t, c.pause.Truncate(time.Second), time.Since(begin).Truncate(time.Second))
			})
		})
	}
}

// http.Client.CloseIdleConnections finds the method.
func TestTransport_CloseIdleConnections_ReachesBase(t *testing.T) {
	base := &closing{}
	(&http.Client{Transport: httplimit.Transport(base, httplimit.All(grants))}).CloseIdleConnections()
	assert.Equal(t, 1, base.closed)
	// A base without the method.
	(&http.Client{Transport: httplimit.Transport(roundTrip(nil), httplimit.All(grants))}).CloseIdleConnections()
}

// closing is a RoundTripper that closes idle connections.
type closing struct {
	http.RoundTripper
	closed int
}

func (c *closing) CloseIdleConnections() { c.closed++ }
