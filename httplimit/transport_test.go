package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
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

// upstream answers in place of a network.
type upstream func(*http.Request) *http.Response

func (u upstream) RoundTrip(r *http.Request) (*http.Response, error) { return u(r), nil }

func respond(status int, headers ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody}
}

func fine(*http.Request) *http.Response { return respond(200) }

func perHost(client *rratelimiter.Client, policies ...limit.Policy) func(*http.Request) (httplimit.Limiter, error) {
	return httplimit.Each(client, "calls", func(r *http.Request) (string, error) { return r.URL.Host, nil }, policies...)
}

// call sends a request to a host within a time.
func call(b *redistest.Fixture, transport http.RoundTripper, host string, within time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(b.Context(), within)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host, nil)
	require.NoError(b, err)
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

// Calls wait for their permits in the order in which they came, each host's by themselves.
func TestCallsWait(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		transport := httplimit.Transport(upstream(fine), perHost(client, limit.FixedWindow{Permits: 1, Interval: time.Second}))
		begin := time.Now()
		var calls sync.WaitGroup
		for i := range 5 {
			calls.Go(func() {
				redistest.Pass(time.Duration(i) * time.Millisecond)
				_, err := call(b, transport, "one", time.Minute)
				assert.NoError(b, err)
				assert.Equal(b, time.Duration(i)*time.Second, time.Since(begin).Truncate(time.Second), "call %d", i)
			})
		}
		_, err := call(b, transport, "two", time.Minute)
		assert.NoError(b, err)
		assert.Zero(b, time.Since(begin))
		calls.Wait()
	})
}

// A call that cannot be sent in time fails at once, has not been sent, and has closed its body.
func TestCallsThatCannotWait(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		var sent atomic.Int64
		counts := upstream(func(r *http.Request) *http.Response { sent.Add(1); return fine(r) })
		for name, transport := range map[string]http.RoundTripper{
			"context": httplimit.Transport(counts, perHost(client, hour(1))),
			"wait":    httplimit.Transport(counts, perHost(client, hour(1)), httplimit.Wait(time.Second)),
		} {
			sent.Store(0)
			begin := time.Now()
			_, err := call(b, transport, name, time.Minute)
			require.NoError(b, err)
			body := &closed{Reader: strings.NewReader("body")}
			r, err := http.NewRequest(http.MethodPost, "http://"+name, body)
			require.NoError(b, err)
			ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
			defer cancel()
			_, err = transport.RoundTrip(r.WithContext(ctx))
			assert.ErrorIs(b, err, httplimit.ErrNotSent)
			assert.Equal(b, name == "context", errors.Is(err, context.DeadlineExceeded))
			assert.Zero(b, time.Since(begin))
			assert.True(b, body.closed)
			assert.EqualValues(b, 1, sent.Load())
		}
	})
}

type closed struct {
	io.Reader
	closed bool
}

func (c *closed) Close() error { c.closed = true; return nil }

// A Retry-After pauses its limiter's name for all calls of the Transport, and no other.
func TestRetryAfterPausesAll(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		headers []string
		pause   time.Duration
	}{
		"seconds":           {429, []string{"Retry-After", "7"}, 7 * time.Second},
		"unavailable":       {503, []string{"Retry-After", "7"}, 7 * time.Second},
		"a date":            {429, []string{"Retry-After", "Sat, 01 Jan 2000 00:00:30 GMT"}, 30 * time.Second},
		"a date of theirs":  {429, []string{"Retry-After", "Sun, 02 Jan 2005 00:00:05 GMT", "Date", "Sun, 02 Jan 2005 00:00:00 GMT"}, 5 * time.Second},
		"a date gone by":    {429, []string{"Retry-After", "Sat, 01 Jan 1999 00:00:30 GMT"}, 0},
		"a year":            {429, []string{"Retry-After", "31536000"}, time.Hour},
		"a date far away":   {429, []string{"Retry-After", "Mon, 01 Jan 2001 00:00:00 GMT"}, time.Hour},
		"more than a int64": {429, []string{"Retry-After", "99999999999999999999"}, time.Hour},
		"zero":              {429, []string{"Retry-After", "0"}, 0},
		"below zero":        {429, []string{"Retry-After", "-7"}, 0},
		"nonsense":          {429, []string{"Retry-After", "soon"}, 0},
		"none":              {429, nil, 0},
		"another status":    {500, []string{"Retry-After", "7"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				refusing := true
				transport := httplimit.Transport(upstream(func(r *http.Request) *http.Response {
					if refusing {
						refusing = false
						return respond(c.status, c.headers...)
					}
					return fine(r)
				}), perHost(client, limit.TokenBucket{Capacity: 100, Refill: 1, Interval: time.Hour}))
				begin := time.Now()
				status, err := call(b, transport, "one", time.Minute)
				require.NoError(b, err)
				require.Equal(b, c.status, status, "the caller sees it")
				var calls sync.WaitGroup
				for range 10 {
					calls.Go(func() {
						status, err := call(b, transport, "one", 2*time.Hour)
						assert.NoError(b, err)
						assert.Equal(b, 200, status)
						assert.Equal(b, c.pause.Truncate(time.Second), time.Since(begin).Truncate(time.Second))
					})
				}
				_, err = call(b, transport, "two", time.Minute)
				require.NoError(b, err)
				assert.Zero(b, time.Since(begin))
				if c.pause > time.Second {
					_, err = call(b, transport, "one", time.Second)
					assert.ErrorIs(b, err, context.DeadlineExceeded)
					assert.Zero(b, time.Since(begin), "it knows at once")
				}
				calls.Wait()
			})
		})
	}
}

// A client that is refused by a Middleware and sends again through a Transport succeeds at its first retry.
func TestTheFirstRetrySucceeds(t *testing.T) {
	for name, policy := range map[string]limit.Policy{
		"window": limit.FixedWindow{Permits: 1, Interval: 2500 * time.Millisecond}, "log": limit.SlidingLog{Permits: 1, Interval: 1100 * time.Millisecond},
		"bucket": limit.TokenBucket{Capacity: 1, Refill: 3, Interval: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
				p := listen(b, httplimit.Middleware(perIP(client, policy))(hello))
				wire := &http.Transport{DialContext: p.dial}
				defer wire.CloseIdleConnections()
				// The client's own limit is no hindrance.
				transport := httplimit.Transport(wire, perHost(client, limit.TokenBucket{Capacity: 1000, Refill: 1, Interval: time.Hour}))
				for range 5 {
					redistest.Pass(37 * time.Millisecond)
					status, err := call(b, transport, "server", 30*time.Minute)
					require.NoError(b, err)
					if status == 429 {
						status, err = call(b, transport, "server", 30*time.Minute)
						require.NoError(b, err)
					}
					assert.Equal(b, 200, status)
				}
			})
		})
	}
}

// What a Transport does while Redis fails.
func TestCallsInAnOutage(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		open := httplimit.Transport(upstream(fine), perHost(client, hour(10)), httplimit.OnFailure(httplimit.Open))
		shut := httplimit.Transport(upstream(fine), perHost(client, hour(10)))
		share := httplimit.Transport(upstream(fine), perHost(client, limit.FixedWindow{Permits: 10, Interval: time.Second}), httplimit.OnFailure(httplimit.Local(0.1)))
		b.Latency.Store(int64(time.Minute))
		begin := time.Now()
		_, err := call(b, open, "one", time.Minute)
		assert.NoError(b, err)
		assert.Equal(b, httplimit.DefaultDeadline, time.Since(begin))
		_, err = call(b, shut, "one", time.Minute)
		assert.ErrorIs(b, err, httplimit.ErrNotSent)
		assert.ErrorIs(b, err, context.DeadlineExceeded)
		begin = time.Now()
		for i := range 4 {
			_, err = call(b, share, "one", time.Minute)
			assert.NoError(b, err)
			assert.InDelta(b, float64(i), time.Since(begin).Seconds(), 0.5, "one a second")
		}
		b.Latency.Store(0)
		redistest.Pass(2 * time.Minute)
	})
}

// A pause that begins while a call stands in line for a permit holds for it too, and the permit goes back.
func TestAPauseThatBeginsMeanwhile(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		replies := make(chan *http.Response, 2)
		transport := httplimit.Transport(upstream(func(*http.Request) *http.Response { return <-replies }),
			perHost(client, limit.TokenBucket{Capacity: 1, Refill: 1, Interval: 6 * time.Second})) // the next permit but one is there after 12 s
		begin := time.Now()
		var calls sync.WaitGroup
		calls.Go(func() { _, _ = call(b, transport, "one", time.Minute) })
		redistest.Pass(time.Millisecond)
		calls.Go(func() {
			_, err := call(b, transport, "one", time.Minute)
			assert.NoError(b, err)
			assert.Equal(b, 10*time.Second, time.Since(begin).Truncate(time.Second))
		})
		redistest.Pass(time.Second - time.Millisecond)
		replies <- respond(429, "Retry-After", "9")
		replies <- respond(200)
		calls.Wait()
	})
}

// Shadow waits for nothing.
func TestCallsInTheShadow(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		var results []string
		transport := httplimit.Transport(upstream(func(*http.Request) *http.Response { return respond(429, "Retry-After", "9") }),
			perHost(client, hour(1)), httplimit.Shadow(), httplimit.Wait(2*time.Hour), httplimit.Report(func(_ *http.Request, o httplimit.Outcome) {
				results = append(results, o.Result.String())
			}))
		begin := time.Now()
		for range 2 {
			_, err := call(b, transport, "one", 3*time.Hour)
			assert.NoError(b, err)
		}
		assert.Equal(b, []string{"acquired", "rejected"}, results)
		assert.Zero(b, time.Since(begin))
	})
}
