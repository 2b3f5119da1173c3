package benchmarks

import (
	"context"
	"net/http"
	"strconv"
	"testing"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
)

// BenchmarkMiddleware serves requests of 10,000 tenants without a network. Each middleware reads the
// tenant from a header, asks Redis and sets its headers. redis_rate has no middleware, so its row is
// the handler of its documentation.
func BenchmarkMiddleware(b *testing.B) {
	for _, callers := range []int{16, 256} {
		b.Run("names=10000/callers="+strconv.Itoa(callers), func(b *testing.B) {
			var keys []string
			for _, l := range middlewares {
				keys = append(keys, l.key)
			}
			compare(b, grantingNames(callers, 10_000), keys...)
		})
	}
}

// middlewares are the middlewares of this library and of ulule, and a handler with redis_rate.
var middlewares = []library{
	{key: "httplimit", open: openHTTPLimit(rueidis.ClientOption{})},
	{key: "httplimit+flushdelay", open: openHTTPLimit(rueidis.ClientOption{MaxFlushDelay: flushDelay})},
	{key: "httplimit+xratelimit", open: openHTTPLimit(rueidis.ClientOption{}, httplimit.Headers(httplimit.XRateLimit))},
	{key: "ulule-stdlib", open: openStdlib(plain)},
	{key: "ulule-stdlib+autopipeline", open: openStdlib(onePipeline)},
	{key: "ulule-stdlib+8pipelines", open: openStdlib(manyAtOnce)},
	{key: "redis_rate-handler", open: openHandler(plain)},
	{key: "redis_rate-handler+autopipeline", open: openHandler(onePipeline)},
	{key: "redis_rate-handler+8pipelines", open: openHandler(manyAtOnce)},
}

const tenant = "X-Tenant"

func openHTTPLimit(option rueidis.ClientOption, opts ...httplimit.Option) func(testing.TB, *server, load) session {
	return func(b testing.TB, _ *server, l load) session {
		option.InitAddress = []string{l.addr}
		client := rratelimiter.New(dialWith(b, option))
		each := httplimit.Each(client, "middleware", httplimit.ByHeader(tenant), fixedWindow)
		return serve(l, httplimit.Middleware(each, opts...))
	}
}

func openStdlib(dial goRedis) func(testing.TB, *server, load) session {
	return func(b testing.TB, _ *server, l load) session {
		store, err := ululeredis.NewStore(dial(b, l))
		require.NoError(b, err)
		instance := limiter.New(store, limiter.Rate{Limit: l.limit.permits, Period: l.limit.interval})
		key := stdlib.WithKeyGetter(func(r *http.Request) string { return r.Header.Get(tenant) })
		return serve(l, stdlib.NewMiddleware(instance, key).Handler)
	}
}

func openHandler(dial goRedis) func(testing.TB, *server, load) session {
	return func(b testing.TB, _ *server, l load) session {
		limiter := redis_rate.NewLimiter(dial(b, l))
		limit := redis_rate.Limit{Rate: int(l.limit.permits), Burst: int(l.limit.permits), Period: l.limit.interval}
		return serve(l, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				result, err := limiter.Allow(r.Context(), r.Header.Get(tenant), limit)
				if err != nil {
					w.WriteHeader(http.StatusInternalServerError)
					return
				}
				w.Header().Set("RateLimit-Remaining", strconv.Itoa(result.Remaining))
				if result.Allowed == 0 {
					w.Header().Set("RateLimit-RetryAfter", strconv.Itoa(int(result.RetryAfter.Seconds())))
					w.WriteHeader(http.StatusTooManyRequests)
					return
				}
				next.ServeHTTP(w, r)
			})
		})
	}
}

// serve sends the calls of a load through a middleware. A request has the header alone, and a response
// keeps its headers and status.
func serve(l load, middleware func(http.Handler) http.Handler) session {
	handler := middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	headers := make([]http.Header, len(l.names))
	for i, name := range l.names {
		headers[i] = http.Header{tenant: {name}}
	}
	return session{take: func(ctx context.Context, _, name int, _ int64) (bool, error) {
		r := (&http.Request{Method: http.MethodGet, Header: headers[name], RemoteAddr: "192.0.2.1:1"}).WithContext(ctx)
		w := &response{header: http.Header{}}
		handler.ServeHTTP(w, r)
		return w.status == http.StatusOK, nil
	}}
}

// response is a ResponseWriter that keeps the status and the headers.
type response struct {
	header http.Header
	status int
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) Write(p []byte) (int, error) { return len(p), nil }
func (r *response) WriteHeader(status int)      { r.status = status }
