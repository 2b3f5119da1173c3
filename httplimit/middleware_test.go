package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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

// No limiter, however it is written, lets a request pass as it is.
func TestNoLimiter(t *testing.T) {
	for name, limiter := range map[string]httplimit.Limiter{
		"nil": nil, "nil *limit.Limiter": (*limit.Limiter)(nil), "nil *rratelimiter.Limiter": (*rratelimiter.Limiter)(nil), "nil func": fake(nil),
	} {
		t.Run(name, func(t *testing.T) {
			r, w := request(), httptest.NewRecorder()
			served := false
			httplimit.Middleware(httplimit.All(limiter))(http.HandlerFunc(func(hw http.ResponseWriter, hr *http.Request) {
				served = true
				assert.Same(t, r, hr)
				assert.Same(t, w, hw)
				_, limited := httplimit.FromContext(hr.Context())
				assert.False(t, limited)
				assert.NoError(t, httplimit.Settle(hr.Context(), 5))
			})).ServeHTTP(w, r)
			assert.True(t, served)
			assert.Empty(t, w.Header())
		})
	}
}

const secret = "what only the operator may see"

// What cannot be told is decided by the failure mode, and why is told to nobody but Report.
func TestWhatCannotBeTold(t *testing.T) {
	failing := func(*http.Request) (httplimit.Limiter, error) { return nil, errors.New(secret) }
	for name, c := range map[string]struct {
		choose func(*http.Request) (httplimit.Limiter, error)
		opts   []httplimit.Option
		status int
		result httplimit.Result
	}{
		"closed":  {failing, nil, 503, httplimit.FailedClosed},
		"open":    {failing, []httplimit.Option{httplimit.OnFailure(httplimit.Open)}, 200, httplimit.FailedOpen},
		"a share": {failing, []httplimit.Option{httplimit.OnFailure(httplimit.Local(1))}, 503, httplimit.FailedClosed},
		"a cost":  {httplimit.All(fake(nil)), nil, 200, 0},
		"a cost below 0": {
			httplimit.All(httplimit.Limiter(new(limit.Limiter))), []httplimit.Option{httplimit.Cost(func(*http.Request) int64 { return -1 })},
			400, httplimit.FailedClosed,
		},
		"a limiter without a client": {httplimit.All(new(limit.Limiter)), nil, 503, httplimit.FailedClosed},
		"a limiter that fails": {
			httplimit.All(fake(func(context.Context, int64) (rratelimiter.Decision, error) {
				return rratelimiter.Decision{}, errors.New(secret)
			})), nil, 503, httplimit.FailedClosed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := new(ok)
			var got httplimit.Outcome
			report := httplimit.Report(func(_ *http.Request, o httplimit.Outcome) { got = o })
			w := serve(httplimit.Middleware(c.choose, append([]httplimit.Option{report}, c.opts...)...)(h), request())
			assert.Equal(t, c.status, w.Code)
			assert.Equal(t, c.result, got.Result)
			assert.Equal(t, c.status == 200, h.served == 1)
			if c.result != 0 {
				assert.Error(t, got.Err)
			}
			if c.status == 503 {
				assert.JSONEq(t, `{"type": "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity", "status": 503,
					"title": "Requests cannot be admitted at the moment."}`, w.Body.String())
				assert.Equal(t, http.Header{"Content-Type": {"application/problem+json"}, "Retry-After": {"1"}}, w.Header())
			}
		})
	}
}

func TestCost(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		h := new(ok)
		cost := int64(0)
		handler := httplimit.Middleware(perIP(client, hour(10)), httplimit.Cost(func(*http.Request) int64 { return cost }))(h)
		for _, c := range []struct {
			cost   int64
			status int
			limit  []string
			retry  []string
		}{
			{0, 200, nil, nil},
			{7, 200, []string{`"hour";r=3;t=3600`}, nil},
			{4, 429, []string{`"hour";r=3;t=3600`}, []string{"3600"}},
			{3, 200, []string{`"hour";r=0;t=3600`}, nil},
			{11, 429, nil, nil},
			{1 << 60, 429, nil, nil},
		} {
			cost = c.cost
			w := serve(handler, request())
			assert.Equal(b, c.status, w.Code, "cost %d", c.cost)
			assert.Equal(b, c.limit, w.Header()["Ratelimit"], "cost %d", c.cost)
			assert.Equal(b, c.retry, w.Header()["Retry-After"], "cost %d", c.cost)
		}
		assert.Equal(b, 3, h.served)
	})
}

// A request that waits is served as soon as it can be, and refused at once where it cannot in time.
func TestWait(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		h := new(ok)
		handler := httplimit.Middleware(perIP(client, limit.FixedWindow{Permits: 1, Interval: 3 * time.Second}), httplimit.Wait(2*time.Second))(h)
		require.Equal(b, 200, serve(handler, request()).Code)
		begin := time.Now()
		w := serve(handler, request())
		assert.Equal(b, 429, w.Code)
		assert.Equal(b, "3", w.Header().Get("Retry-After"))
		assert.Zero(b, time.Since(begin))
		redistest.Pass(1500 * time.Millisecond)
		w = serve(handler, request())
		assert.Equal(b, 200, w.Code)
		assert.Equal(b, 3*time.Second, time.Since(begin))
		assert.Equal(b, `"3s";r=0`, w.Header().Get("RateLimit"), "what others have taken meanwhile is unknown, and the end of the window")

		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		redistest.Pass(1500 * time.Millisecond)
		w = serve(handler, request().WithContext(ctx))
		assert.Equal(b, 503, w.Code, "its context has ended")
		assert.Equal(b, 2, h.served)
	})
}

// A limiter without a line is waited for all the same.
func TestWaitForALimiterOfAnotherKind(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, _ *rratelimiter.Client) {
		free := time.Now().Add(1500 * time.Millisecond)
		limiter := fake(func(context.Context, int64) (rratelimiter.Decision, error) {
			left := max(0, time.Until(free))
			return rratelimiter.Decision{Allowed: left == 0, Limit: 1, RetryAfter: left}, nil
		})
		begin := time.Now()
		w := serve(httplimit.Middleware(httplimit.All(limiter), httplimit.Wait(time.Second))(new(ok)), request())
		assert.Equal(b, 429, w.Code)
		w = serve(httplimit.Middleware(httplimit.All(limiter), httplimit.Wait(2*time.Second))(new(ok)), request())
		assert.Equal(b, 200, w.Code)
		assert.Equal(b, 1500*time.Millisecond, time.Since(begin))
	})
}

func TestShadowDecidesAndLetsPass(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		h := new(ok)
		var results []string
		handler := httplimit.Middleware(perIP(client, hour(1)), httplimit.Shadow(), httplimit.Wait(2*time.Hour),
			httplimit.Report(func(_ *http.Request, o httplimit.Outcome) {
				assert.True(b, o.Shadow)
				assert.Equal(b, "web:192.0.2.1", o.Limiter)
				results = append(results, o.Result.String())
			}))(h)
		begin := time.Now()
		for range 2 {
			w := serve(handler, request())
			assert.Equal(b, 200, w.Code)
			assert.Empty(b, w.Header())
		}
		b.Redis.Server().Close()
		assert.Equal(b, 200, serve(handler, request()).Code)
		assert.Equal(b, []string{"acquired", "rejected", "failed_closed"}, results)
		assert.Equal(b, 3, h.served)
		assert.Less(b, time.Since(begin), time.Second)
	})
}

// Several Middlewares around a handler each tell their limit, and the innermost outcome is the handler's.
func TestSeveralMiddlewares(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		outer := httplimit.Middleware(httplimit.Each(client, "all", httplimit.ByIP(), httplimit.Named("outer", hour(10))))
		inner := httplimit.Middleware(httplimit.Each(client, "some", httplimit.ByIP(), httplimit.Named("inner", hour(5))))
		w := serve(outer(inner(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			o, limited := httplimit.FromContext(r.Context())
			assert.True(b, limited)
			assert.Equal(b, "some:192.0.2.1", o.Limiter)
			assert.EqualValues(b, 4, o.Decision.Remaining)
		}))), request())
		assert.Equal(b, []string{`"outer";r=9;t=3600`, `"inner";r=4;t=3600`}, w.Header()["Ratelimit"])
		assert.Equal(b, []string{`"outer";q=10;w=3600`, `"inner";q=5;w=3600`}, w.Header()["Ratelimit-Policy"])
	})
}

// What can never work says so at once.
func TestWrongSettingsPanic(t *testing.T) {
	client := new(rratelimiter.Client)
	for name, f := range map[string]func(){
		"no choice":           func() { httplimit.Middleware(nil) },
		"no choice for calls": func() { httplimit.Transport(nil, nil) },
		"no client":           func() { httplimit.Each(client, "web", httplimit.ByIP(), hour(1)) },
		"no key":              func() { httplimit.Each(client, "web", nil, hour(1)) },
		"no name":             func() { httplimit.Each(client, "", httplimit.ByIP(), hour(1)) },
		"a style":             func() { httplimit.Headers(7) },
		"a share of nothing":  func() { httplimit.Local(0) },
		"a share above all":   func() { httplimit.Local(1.1) },
		"a mode":              func() { httplimit.OnFailure(2) },
		"a deadline":          func() { httplimit.Deadline(0) },
		"a wait":              func() { httplimit.Wait(-1) },
		"a name's letters":    func() { httplimit.Named("é", hour(1)) },
		"no policy's name":    func() { httplimit.Named("", hour(1)) },
	} {
		assert.Panics(t, f, name)
	}
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		for name, policies := range map[string][]limit.Policy{
			"none": {}, "a bad one": {limit.FixedWindow{}}, "two equal ones": {hour(1), hour(2)},
		} {
			assert.Panics(b, func() { perIP(client, policies...) }, name)
		}
		assert.EqualValues(b, 1, b.Scripts.Load(), "nothing was asked but by the helper")
	})
}

// A limiter that is nobody's fault to lack a rate is a failure, not an outage.
func TestALimiterWithoutARate(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		handler := httplimit.Middleware(httplimit.All(client.Limiter("none")), httplimit.OnStoreChange(func(bool, error) { b.Error("no outage") }))(new(ok))
		w := serve(handler, request())
		assert.Equal(b, 503, w.Code)
		assert.False(b, strings.Contains(w.Body.String(), "none"), "the client is not told the limiter's name")
	})
}

// However many keys there are, each has a limiter of its own.
func TestManyKeys(t *testing.T) {
	guardtest.Run(t, func(b *redistest.Fixture, client *rratelimiter.Client) {
		handler := httplimit.Middleware(httplimit.Each(client, "web", httplimit.ByHeader("X-Key"), hour(1)))(new(ok))
		for round := range 2 {
			for key := range 600 {
				r := request()
				r.Header.Set("X-Key", fmt.Sprint(key))
				if got, want := serve(handler, r).Code, []int{200, 429}[round]; got != want {
					b.Fatalf("round %d of key %d: %d, want %d", round, key, got, want)
				}
			}
		}
	})
}
