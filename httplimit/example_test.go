package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// connect opens a Client on an in-memory Redis, in place of
//
//	redis, err := rratelimiter.Connect(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	client := rratelimiter.New(redis)
//
// Its clock stands still, so that what examples print does not depend on the machine.
var connect = guardtest.Example

// unhurried is for machines that have other things to do than to run examples.
var unhurried = httplimit.Deadline(time.Minute)

// hello is what the examples limit.
var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

// get sends a request to a handler, with pairs of header names and values, and gives the response.
func get(handler http.Handler, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, nil) // its peer is 192.0.2.1
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Result()
}

// Ten requests a second and a hundred a minute for each client, behind a load balancer that writes
// X-Forwarded-For.
func Example() {
	client := connect()

	balancer := netip.MustParsePrefix("192.0.2.0/24")
	perClient := httplimit.Each(client, "web", httplimit.ByIP(balancer),
		limit.FixedWindow{Permits: 10, Interval: time.Second},
		limit.FixedWindow{Permits: 100, Interval: time.Minute})
	limited := httplimit.Middleware(perClient, httplimit.OnFailure(limit.Local(0.5)), httplimit.Deadline(time.Second))

	mux := http.NewServeMux()
	mux.Handle("GET /hello", limited(hello))
	resp := get(mux, "/hello", "X-Forwarded-For", "203.0.113.9")
	fmt.Println(resp.Status)
	fmt.Println(resp.Header.Get("RateLimit-Policy"))
	// Output:
	// 200 OK
	// "second";q=10;w=1, "minute";q=100;w=60
}

// One limit for all, a limiter that Java programs use too.
func ExampleAll() {
	client := connect()

	// redisson.getRateLimiter("reports") in Java
	quota := client.Limiter("reports", rratelimiter.InitialRate(rratelimiter.Rate{Permits: 1, Interval: time.Hour}))
	reports := httplimit.Middleware(httplimit.All(quota), unhurried)(hello)
	for range 2 {
		resp := get(reports, "/reports")
		fmt.Println(resp.Status, resp.Header["Retry-After"])
	}
	// Output:
	// 200 OK []
	// 429 Too Many Requests [3600]
}

// Five log-ins a minute for each user and address. Policies can have names for clients to see.
func ExampleEach() {
	client := connect()

	perUser := httplimit.Each(client, "login", httplimit.Combined(httplimit.ByPathValue("user"), httplimit.ByIP()),
		limit.Named("logins", limit.SlidingWindow{Permits: 5, Interval: time.Minute}))
	mux := http.NewServeMux()
	mux.Handle("GET /login/{user}", httplimit.Middleware(perUser, unhurried)(hello))
	for range 5 {
		get(mux, "/login/alice")
	}
	fmt.Println(get(mux, "/login/alice").Status)
	resp := get(mux, "/login/bob")
	fmt.Println(resp.Status, resp.Header.Get("RateLimit-Policy"))
	// Output:
	// 429 Too Many Requests
	// 200 OK "logins";q=5;w=60
}

// A Java program opens the limiter of a tenant as redisson.getRateLimiter("tenant:" + id).
func ExampleEachRedisson() {
	client := connect()

	perTenant := httplimit.EachRedisson(client, "tenant:", httplimit.ByPathValue("tenant"),
		rratelimiter.Rate{Permits: 2, Interval: time.Second, KeepAlive: time.Hour})
	mux := http.NewServeMux()
	mux.Handle("GET /{tenant}/orders", httplimit.Middleware(perTenant, unhurried)(hello))
	for range 3 {
		fmt.Println(get(mux, "/42/orders").Status)
	}
	free, err := client.Limiter("tenant:42").AvailablePermits(context.Background()) // as Java sees it
	fmt.Println(free, err)
	// Output:
	// 200 OK
	// 200 OK
	// 429 Too Many Requests
	// 0 <nil>
}

// A chooser is a func: paying tenants have a larger limit, and one's own checks none.
func ExampleMiddleware() {
	client := connect()

	choose := func(r *http.Request) (httplimit.Limiter, error) {
		switch tenant := r.Header.Get("X-Tenant"); tenant { // set by what authenticates
		case "":
			return nil, fmt.Errorf("no tenant")
		case "self":
			return nil, nil
		case "gold":
			return limit.New(client, "tenant:gold", limit.FixedWindow{Permits: 1000, Interval: time.Minute}), nil
		default:
			return limit.New(client, "tenant:"+tenant, limit.FixedWindow{Permits: 10, Interval: time.Minute}), nil
		}
	}
	handler := httplimit.Middleware(choose, unhurried)(hello)
	for _, tenant := range []string{"gold", "iron", "self", ""} {
		resp := get(handler, "/", "X-Tenant", tenant)
		fmt.Println(resp.Status, resp.Header["Ratelimit-Policy"])
	}
	// Output:
	// 200 OK ["minute";q=1000;w=60]
	// 200 OK ["minute";q=10;w=60]
	// 200 OK []
	// 503 Service Unavailable []
}

// A content network writes the client's address into a header of its own.
func ExampleAddress() {
	clients := httplimit.Address{
		Trusted:  []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, // the ranges that the network publishes
		Header:   "CF-Connecting-IP",
		IPv6Bits: 48,
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil) // of 192.0.2.1
	r.Header.Set("CF-Connecting-IP", "2001:db8:1:2::3")
	r.Header.Set("X-Forwarded-For", "203.0.113.9") // ignored
	fmt.Println(clients.Key(r))
	fmt.Println(clients.Client(r))
	// Output:
	// 2001:db8:1::/48 <nil>
	// 2001:db8:1:2::3 <nil>
}

// The lines of the README.
func ExampleHashed() {
	client := connect()
	mux := http.NewServeMux()
	mux.Handle("GET /hello", hello)

	perKey := httplimit.Each(client, "api", httplimit.Hashed(httplimit.ByHeader("X-Api-Key")),
		limit.SlidingWindow{Permits: 100, Interval: time.Minute})
	handler := httplimit.Middleware(perKey)(mux) // for http.ListenAndServe

	resp := get(handler, "/hello", "X-Api-Key", "secret")
	fmt.Println(resp.Status, resp.Header.Get("RateLimit-Policy"))
	fmt.Println(get(handler, "/hello").Status)
	// Output:
	// 200 OK "minute";q=100;w=60
	// 400 Bad Request
}

// Two calls an hour to each host, for all programs together.
func ExampleTransport() {
	client := connect()
	server := httptest.NewServer(hello)
	defer server.Close()

	perHost := httplimit.Each(client, "calls", func(r *http.Request) (string, error) { return r.URL.Host, nil },
		limit.FixedWindow{Permits: 2, Interval: time.Hour})
	api := &http.Client{Transport: httplimit.Transport(nil, perHost, unhurried)}
	for range 3 {
		ctx, cancel := context.WithTimeout(noContext, time.Minute)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err != nil {
			panic(err)
		}
		resp, err := api.Do(r)
		if err != nil { // at once: there is no permit within the minute that the context lasts
			fmt.Println(errors.Is(err, httplimit.ErrNotSent), errors.Is(err, context.DeadlineExceeded))
			continue
		}
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// true true
}
