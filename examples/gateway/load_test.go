package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/golden"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// from dials from another address of this host.
func from(address string) func(context.Context, string, string) (net.Conn, error) {
	return (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext
}

// The clock is fake, so the report is the same to the byte.
func TestLoad_Report_IsGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		begin := time.Now()
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			n := sent.Add(1)
			assert.Equal(t, time.Duration(n-1)*20*time.Millisecond, time.Since(begin), "when it was sent")
			assert.Equal(t, []string{[]string{"198.51.100.3", "198.51.100.1", "198.51.100.2"}[n%3]}, r.Header["X-Forwarded-For"])
			time.Sleep(time.Duration(n) * time.Millisecond)
			resp := &http.Response{StatusCode: 200, Header: make(http.Header), Body: io.NopCloser(strings.NewReader("hello"))}
			switch {
			case n == 7:
				return nil, errors.New("the connection was cut")
			case n%10 == 0:
				resp.StatusCode = 503
				resp.Header.Set("Retry-After", "10")
			case n > 60:
				resp.StatusCode = 429
				resp.Header.Set("Retry-After", []string{"9", "10"}[n%2])
			}
			return resp, nil
		})
		r := generate(t.Context(), transport, load{url: "http://gateway.test/", clients: 3, rate: 50,
			duration: 2 * time.Second})
		golden.File(t, "testdata/load.txt", r.String())
	})
}

func TestLoad_Stopped_ReportsTheRepliesSoFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 95*time.Millisecond)
		defer stop()
		transport := roundTripper(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
		})
		r := generate(ctx, transport, load{url: "http://gateway.test/", clients: 1, rate: 100, duration: time.Hour})
		assert.Equal(t, 10, r.by[200].count)
		assert.Equal(t, time.Second, r.percentile(100))
	})
}

func TestLoad_NoServer_IsAnError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	listener.Close()
	out := new(redistest.Log)
	err = run(t.Context(), []string{"load", "-rate", "100", "-seconds", "0.05", "http://" + listener.Addr().String()}, out)
	assert.ErrorContains(t, err, "no response")
	assert.Regexp(t, `(?m)^none +5 +100\.0 % .*refused`, out.String())
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
