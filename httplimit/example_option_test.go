package httplimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
)

var noContext = context.Background()

// one is a limiter of one permit an hour, in place of yours.
func one(client *rratelimiter.Client) func(*http.Request) (httplimit.Limiter, error) {
	return httplimit.Each(client, "web", httplimit.ByIP(), limit.FixedWindow{Permits: 1, Interval: time.Hour})
}

// Batches cost as many permits as they have items.
func ExampleCost() {
	client := connect()

	items := httplimit.Cost(func(r *http.Request) int64 { return int64(len(r.URL.Query()["id"])) })
	perClient := httplimit.Each(client, "batch", httplimit.ByIP(),
		limit.TokenBucket{Capacity: 3, Refill: 1, Interval: time.Minute})
	handler := httplimit.Middleware(perClient, unhurried, items)(hello)
	for _, path := range []string{"/", "/?id=1&id=2", "/?id=1&id=2", "/?id=1&id=2&id=3&id=4"} {
		resp := get(handler, path)
		fmt.Println(resp.Status, resp.Header["Retry-After"])
	}
	// Output:
	// 200 OK []
	// 200 OK []
	// 429 Too Many Requests [60]
	// 429 Too Many Requests []
}

// The office is not limited.
func ExampleSkip() {
	client := connect()

	clients, office := httplimit.Address{}, netip.MustParsePrefix("192.0.2.0/24")
	handler := httplimit.Middleware(one(client), unhurried, httplimit.Skip(func(r *http.Request) bool {
		addr, err := clients.Client(r)
		return err == nil && office.Contains(addr)
	}))(hello)
	for range 2 {
		fmt.Println(get(handler, "/").Status)
	}
	// Output:
	// 200 OK
	// 200 OK
}

// A preflight of a browser has no API key. A script reads the headers that CORS names.
func ExampleSkip_cors() {
	client := connect()
	mux := http.NewServeMux()
	mux.Handle("/hello", hello)
	perKey := httplimit.Each(client, "api", httplimit.ByHeader("X-Api-Key"),
		limit.FixedWindow{Permits: 1, Interval: time.Minute})

	limited := httplimit.Middleware(perKey,
		httplimit.Skip(func(r *http.Request) bool { return r.Method == http.MethodOptions }))
	cors := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Access-Control-Allow-Origin", "https://shop.example")
			w.Header().Set("Access-Control-Expose-Headers", "RateLimit, RateLimit-Policy, Retry-After")
			next.ServeHTTP(w, r)
		})
	}
	handler := cors(limited(mux))

	preflight := httptest.NewRecorder()
	handler.ServeHTTP(preflight, httptest.NewRequest(http.MethodOptions, "/hello", nil))
	fmt.Println(preflight.Code, preflight.Result().Header["Ratelimit"])
	for range 2 {
		resp := get(handler, "/hello", "X-Api-Key", "k")
		fmt.Println(resp.Status, resp.Header["Access-Control-Expose-Headers"], resp.Header["Access-Control-Allow-Origin"])
	}
	// Output:
	// 200 []
	// 200 OK [RateLimit, RateLimit-Policy, Retry-After] [https://shop.example]
	// 429 Too Many Requests [RateLimit, RateLimit-Policy, Retry-After] [https://shop.example]
}

// The handler settles for the innermost Middleware, and one between two for the outer one.
func ExampleSettle_nested() {
	client := connect()

	window := limit.FixedWindow{Permits: 10, Interval: time.Minute}
	outer := limit.New(client, "outer", window)
	inner := limit.New(client, "inner", window)
	settle := func(cost int64, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			if err := httplimit.Settle(r.Context(), cost); err != nil {
				panic(err)
			}
		})
	}
	handler := httplimit.Middleware(httplimit.All(outer), unhurried)(
		settle(3, httplimit.Middleware(httplimit.All(inner), unhurried)(settle(7, hello))))
	get(handler, "/")
	for _, l := range []*limit.Limiter{outer, inner} {
		each, err := l.Peek(context.Background())
		fmt.Println(each[0].Remaining, err)
	}
	// Output:
	// 7 <nil>
	// 3 <nil>
}

// What a limit would deny, before it does.
func ExampleShadow() {
	client := connect()

	report := func(r *http.Request, o limit.Outcome) {
		fmt.Println(r.URL.Path, o.Limiter, o.Result, o.Violated)
	}
	handler := httplimit.Middleware(one(client), unhurried, httplimit.Shadow(), httplimit.Report(report))(hello)
	for range 2 {
		resp := get(handler, "/hello")
		fmt.Println(resp.Status, resp.Header["Ratelimit"])
	}
	// Output:
	// /hello web:192.0.2.1 acquired []
	// 200 OK []
	// /hello web:192.0.2.1 rejected [hour]
	// 200 OK []
}

// A refusal in the words of one's own API. Its headers are there already.
func ExampleRefuse() {
	client := connect()

	refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o, _ := httplimit.FromContext(r.Context())
		status := http.StatusTooManyRequests
		if o.Result != limit.Rejected {
			status = http.StatusServiceUnavailable
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error": "over %v"}`, o.Violated)
	})
	handler := httplimit.Middleware(one(client), unhurried, httplimit.Refuse(refuse))(hello)
	for range 2 {
		fmt.Println(get(handler, "/").Status)
	}
	// Output:
	// 200 OK
	// 429 Too Many Requests
}

// down returns a limiter whose Redis cannot be reached.
func down() *limit.Limiter {
	redis, err := rratelimiter.Connect(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}})
	if err != nil {
		panic(err)
	}
	return limit.New(rratelimiter.New(redis), "down", limit.FixedWindow{Permits: 8, Interval: time.Minute})
}

func ExampleOnFailure() {
	handler := func(mode limit.FailureMode, opts ...httplimit.Option) http.Handler {
		return httplimit.Middleware(httplimit.All(down()), append(opts, httplimit.OnFailure(mode))...)(hello)
	}
	fmt.Println(get(handler(limit.Open), "/").Status)
	fmt.Println(get(handler(limit.Closed, httplimit.Deadline(20*time.Millisecond)), "/").Status)
	// Output:
	// 200 OK
	// 503 Service Unavailable
}

// Four processes share a limit of eight a minute, so each grants two of them by itself while Redis
// is down.
func ExampleOnFailure_local() {
	handler := httplimit.Middleware(httplimit.All(down()),
		httplimit.OnFailure(limit.Local(0.25)),
		httplimit.OnRedisChange(func(_ string, up bool, err error) { fmt.Println("up:", up, err) }))(hello)
	for range 2 {
		resp := get(handler, "/")
		fmt.Println(resp.Status, resp.Header["Retry-After"])
	}
	// Output:
	// up: false rratelimiter: limiter "down": Redis: dial tcp 127.0.0.1:1: connect: connection refused
	// 200 OK []
	// 429 Too Many Requests [30]
}

// Failed log-ins alone count.
func ExampleSettle() {
	client := connect()

	login := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("password") != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if err := httplimit.Settle(r.Context(), 0); err != nil {
			panic(err)
		}
	})
	failed := httplimit.Each(client, "failed", httplimit.ByIP(), limit.FixedWindow{Permits: 2, Interval: time.Minute})
	handler := httplimit.Middleware(failed, unhurried,
		httplimit.OnSettleError(func(_ *http.Request, err error) { fmt.Println(err) }))(login)
	for _, password := range []string{"secret", "secret", "guess", "secret", "guess", "secret"} {
		fmt.Println(get(handler, "/?password="+password).Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// 401 Unauthorized
	// 200 OK
	// 401 Unauthorized
	// 429 Too Many Requests
}

// A handler sees the permits that remain.
func ExampleFromContext() {
	client := connect()

	page := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if o, limited := httplimit.FromContext(r.Context()); limited {
			fmt.Println(o.Decision.Remaining, "of", o.Decision.Limit, "left")
		}
	})
	get(httplimit.Middleware(one(client), unhurried)(page), "/")
	get(page, "/")
	// Output: 0 of 1 left
}

// A request without its API key is the client's fault, and no failure of Redis.
func ExampleReport() {
	perKey := httplimit.Each(connect(), "web", httplimit.ByHeader("X-Api-Key"),
		limit.FixedWindow{Permits: 1, Interval: time.Hour})
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	report := func(r *http.Request, o limit.Outcome) { log.Info(r.URL.Path, "limit", o) }
	handler := httplimit.Middleware(perKey, unhurried, httplimit.Report(report))(hello)
	fmt.Println(get(handler, "/hello").Status)
	// Output:
	// level=INFO msg=/hello limit.result=invalid limit.error="httplimit: header X-Api-Key: want one value that is not empty: got 0 values"
	// 400 Bad Request
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
