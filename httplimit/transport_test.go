package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
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

// upgraded is the body of 101 Switching Protocols.
type upgraded struct{ *closing }

func (upgraded) Write(p []byte) (int, error) { return len(p), nil }

func (u upgraded) CloseWrite() error { u.closed += 10; return nil }

// TestTransport_InFlight_PlaceReturnsOnce when the body is closed or at its end, or the request has failed.
func TestTransport_InFlight_PlaceReturnsOnce(t *testing.T) {
	body := func(r io.Reader) io.ReadCloser { return &closing{Reader: r} }
	closeIt := func(b io.ReadCloser) { b.Close() }
	readIt := func(b io.ReadCloser) { _, _ = io.Copy(io.Discard, b) }
	for name, c := range map[string]struct {
		body io.ReadCloser // nil if the request fails
		use  func(io.ReadCloser)
	}{
		"closed":           {body(strings.NewReader("text")), closeIt},
		"read to its end":  {body(strings.NewReader("text")), readIt},
		"the read fails":   {body(iotest.ErrReader(io.ErrUnexpectedEOF)), readIt},
		"read and closed":  {body(strings.NewReader("text")), func(b io.ReadCloser) { readIt(b); closeIt(b); closeIt(b) }},
		"no body":          {http.NoBody, nil},
		"another protocol": {upgraded{&closing{Reader: strings.NewReader("text")}}, closeIt},
		"it fails":         {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				l := limit.New(client, "api", limit.InFlight{Permits: 5, Lease: time.Minute})
				transport := httplimit.Transport(roundTrip(func(*http.Request) (*http.Response, error) {
					if c.body == nil {
						return nil, errors.New("no answer")
					}
					return &http.Response{StatusCode: 200, Body: c.body}, nil
				}), httplimit.All(l))
				held := func() int64 {
					time.Sleep(time.Second) // a place returns in the background
					each, err := l.Peek(t.Context())
					require.NoError(t, err)
					return 5 - each[0].Remaining
				}
				// One call grants the places of all.
				f.Latency.Store(int64(time.Millisecond))
				var all sync.WaitGroup
				all.Go(func() { assert.NoError(t, l.Acquire(t.Context(), 1)) })
				synctest.Wait()
				for range 2 {
					all.Go(func() { assert.NoError(t, l.Acquire(t.Context(), 1)) })
				}
				var resp *http.Response
				var err error
				all.Go(func() { resp, err = transport.RoundTrip(request()) })
				all.Wait()
				if resp != nil && c.use != nil {
					assert.EqualValues(t, 4, held(), "while the body is open")
					_, writes := resp.Body.(io.Writer)
					assert.Equal(t, name == "another protocol", writes)
					c.use(resp.Body)
				}
				assert.Equal(t, c.body == nil, err != nil)
				assert.EqualValues(t, 3, held(), "those of others")
			})
		})
	}
}

// TestTransport_InFlight_APanicReturnsThePlace of the base or of a callback, as the middleware does.
func TestTransport_InFlight_APanicReturnsThePlace(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		l := limit.New(client, "api", limit.InFlight{Permits: 5, Lease: time.Minute})
		inBase := true
		transport := httplimit.Transport(roundTrip(func(*http.Request) (*http.Response, error) {
			if inBase {
				panic("base")
			}
			return &http.Response{StatusCode: 200, Body: &closing{Reader: strings.NewReader("text")}}, nil
		}), httplimit.All(l), httplimit.PauseOn(func(*http.Response) (time.Duration, bool) { panic("pause") }))
		for _, inBase = range []bool{true, false} {
			assert.Panics(t, func() { _, _ = transport.RoundTrip(request()) })
		}
		time.Sleep(time.Second) // a place returns in the background
		each, err := l.Peek(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 5, each[0].Remaining)
	})
}

// TestTransport_InFlight_PassesOnCloseWrite, which httputil.ReverseProxy calls when its client ends a web
// socket in its direction.
func TestTransport_InFlight_PassesOnCloseWrite(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, _ *redistest.Fixture, client *rratelimiter.Client) {
		for _, body := range []io.ReadCloser{upgraded{&closing{}}, struct {
			*closing
			io.Writer
		}{&closing{}, io.Discard}} {
			transport := httplimit.Transport(roundTrip(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 101, Body: body}, nil
			}), httplimit.All(limit.New(client, "api", limit.InFlight{Permits: 5, Lease: time.Minute})))
			resp, err := transport.RoundTrip(request())
			require.NoError(t, err)
			socket, ok := resp.Body.(interface{ CloseWrite() error })
			require.True(t, ok)
			if of, ok := body.(upgraded); ok {
				assert.NoError(t, socket.CloseWrite())
				assert.Equal(t, 10, of.closed)
			} else {
				assert.ErrorIs(t, socket.CloseWrite(), errors.ErrUnsupported)
			}
		}
	})
}

// TestTransport_Client_ReturnsThePlacesOfRedirects: each is a call of its own.
func TestTransport_Client_ReturnsThePlacesOfRedirects(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		l := limit.New(client, "api", limit.InFlight{Permits: 1, Lease: time.Minute})
		server := listen(f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n := len(r.URL.Path); n < 5 {
				http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
				return
			}
			_, _ = io.WriteString(w, "hello")
		}))
		base := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return server.Dial(), nil
		}}
		defer base.CloseIdleConnections()
		c := &http.Client{Transport: httplimit.Transport(base, httplimit.All(l))}
		begin := time.Now()
		for range 3 {
			resp, err := c.Get("http://server/")
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			assert.Equal(t, "hello", string(text))
		}
		assert.Zero(t, time.Since(begin), "no call waits for the lease of another")
	})
}
