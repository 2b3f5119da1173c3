package httplimit_test

import (
	"bytes"
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// middleware is this package as the contract of all middleware calls it.
var middleware = guardtest.Middleware{
	Server:      newServer,
	Client:      newClient,
	FromContext: httplimit.FromContext,
	Settle:      httplimit.Settle,
	ErrNotSent:  httplimit.ErrNotSent,
	AddressKey: func(peer netip.AddrPort, a guardtest.Address, headers [][2]string) (string, error) {
		r := &http.Request{RemoteAddr: peer.String(), Header: make(http.Header)}
		for _, h := range headers {
			r.Header.Add(h[0], h[1])
		}
		if a.Header == "" && a.IPv6Bits+a.IPv4Bits == 0 {
			return httplimit.ByIP(a.Trusted...)(r)
		}
		return httplimit.Address(a).Key(r)
	},
}

func TestMiddleware_SharedContract_IsKept(t *testing.T) { guardtest.TestServerWiring(t, middleware) }

func TestTransport_SharedContract_IsKept(t *testing.T) { guardtest.TestClientWiring(t, middleware) }

func TestMiddleware_OddRequests_GetNoMoreThanPlainOnes(t *testing.T) {
	guardtest.TestChoices(t, []string{guardtest.ByHeader, guardtest.ByClient},
		func(client *rratelimiter.Client, by string) func(guardtest.Choice) bool {
			key := httplimit.ByHeader("Key")
			if by == guardtest.ByClient {
				key = httplimit.ByIP(netip.MustParsePrefix("10.0.0.1/32"))
			}
			each := httplimit.Each(client, "api", key, limit.FixedWindow{Permits: 1, Interval: time.Hour})
			handler := httplimit.Middleware(each)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			return func(c guardtest.Choice) bool {
				r := request()
				r.RemoteAddr = c.Peer
				for _, h := range c.Headers {
					r.Header.Add(h[0], h[1])
				}
				return serve(handler, r).Code == http.StatusOK
			}
		})
}

func BenchmarkServer(b *testing.B) { guardtest.BenchmarkServer(b, middleware) }

func FuzzUntrusted(f *testing.F) { guardtest.FuzzUntrusted(f, middleware) }

func newServer(s guardtest.Settings) guardtest.Server {
	handler := httplimit.Middleware(choice(s),
		options(s)...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if s.Handler != nil {
			s.Handler(r.Context())
		}
	}))
	return func(ctx context.Context, key string) guardtest.Reply {
		w := serve(handler, keyed(ctx, key))
		var text bytes.Buffer
		reply := guardtest.Reply{Status: w.Code, RetryAfter: retryAfter(w.Header())}
		_ = w.Header().Write(&text)
		reply.Text = text.String() + w.Body.String()
		return reply
	}
}

func newClient(s guardtest.Settings, upstream func() guardtest.Reply) guardtest.Client {
	transport := httplimit.Transport(roundTrip(func(*http.Request) (*http.Response, error) {
		reply := upstream()
		response := &http.Response{StatusCode: reply.Status, Header: make(http.Header), Body: http.NoBody}
		if reply.RetryAfter > 0 {
			response.Header.Set("Retry-After", strconv.Itoa(int(reply.RetryAfter/time.Second)))
		}
		return response, nil
	}), choice(s), options(s)...)
	return func(ctx context.Context, key string) (guardtest.Reply, error) {
		response, err := transport.RoundTrip(keyed(ctx, key))
		if err != nil {
			return guardtest.Reply{}, err
		}
		return guardtest.Reply{Status: response.StatusCode, RetryAfter: retryAfter(response.Header)}, nil
	}
}

func keyed(ctx context.Context, key string) *http.Request {
	r := request().WithContext(ctx)
	if key != "" {
		r.Header.Set("Key", key)
	}
	return r
}

func retryAfter(h http.Header) time.Duration {
	seconds, _ := strconv.Atoi(h.Get("Retry-After"))
	return time.Duration(seconds) * time.Second
}

func choice(s guardtest.Settings) func(*http.Request) (httplimit.Limiter, error) {
	switch {
	case s.Err != nil:
		return func(*http.Request) (httplimit.Limiter, error) { return nil, s.Err }
	case s.Each != nil:
		return httplimit.Each(s.Client, "api", httplimit.ByHeader("Key"), s.Each...)
	case s.Initial != (rratelimiter.Rate{}):
		return httplimit.EachRedisson(s.Client, "api:", httplimit.ByHeader("Key"), s.Initial)
	}
	return httplimit.All(s.Limiter)
}

// common are the options that grpclimit has too.
var common = guardtest.Options[httplimit.Option]{
	Package: "httplimit", Wait: httplimit.Wait, Spread: httplimit.Spread, Deadline: httplimit.Deadline,
	MaxWaiting: httplimit.MaxWaiting, OnFailure: httplimit.OnFailure, OnRedisChange: httplimit.OnRedisChange,
	Shadow: httplimit.Shadow, Random: httplimit.WithRandom,
}

func options(s guardtest.Settings) []httplimit.Option {
	opts := common.Of(s, nil, httplimit.Cost(nil), httplimit.Skip(nil), httplimit.Report(nil),
		httplimit.OnSettleError(nil), httplimit.Refuse(nil)) // nil has no effect
	if s.Cost != nil {
		opts = append(opts, httplimit.Cost(func(*http.Request) int64 { return s.Cost() }))
	}
	if s.Skip != nil {
		opts = append(opts, httplimit.Skip(func(*http.Request) bool { return s.Skip() }))
	}
	if s.Report != nil {
		opts = append(opts, httplimit.Report(func(_ *http.Request, o limit.Outcome) { s.Report(o) }))
	}
	if s.OnSettleError != nil {
		opts = append(opts, httplimit.OnSettleError(func(_ *http.Request, err error) { s.OnSettleError(err) }))
	}
	return opts
}

// roundTrip answers in place of a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
