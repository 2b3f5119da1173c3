package rules_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/rules"
)

// connect opens a Client on an in-memory Redis, in place of
//
//	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}})
//	client := rratelimiter.New(redis)
//
// Its clock stands still, so that the output of examples does not depend on the machine.
var connect = guardtest.Example

// unhurried allows for a busy machine.
var unhurried = httplimit.Deadline(time.Minute)

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

// ask sends a request with pairs of header names and values, and returns the response.
func ask(handler http.Handler, method, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, path, nil) // its peer is 192.0.2.1
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Result()
}

// Log-ins are limited by address, and tenants each have a limit, one of them another.
func ExampleSet_Middleware() {
	client := connect()

	set, err := rules.Parse("rules.yaml", []byte(`
domain: shop
rules:
  - name: login
    match: POST /login
    key: ip
    limits: [{rate: 1/s, policy: fixed_window}, 20/h]
  - name: tenants
    match: /api/
    key: header:X-Tenant
    limits: {rate: 100/m, policy: fixed_window}
    overrides:
      - {key: gold, limits: {rate: 1000/m, policy: fixed_window}}
      - {key: gone, ban: true}
`))
	if err != nil {
		panic(err)
	}
	handler := set.Middleware(client, unhurried)(hello)
	fmt.Println(ask(handler, "POST", "/login").Status)
	fmt.Println(ask(handler, "POST", "/login").Status)
	for _, tenant := range []string{"iron", "gold", "gone"} {
		resp := ask(handler, "GET", "/api/orders", "X-Tenant", tenant)
		fmt.Println(tenant, resp.Status, resp.Header.Get("RateLimit-Policy"))
	}
	// Output:
	// 200 OK
	// 429 Too Many Requests
	// iron 200 OK "minute";q=100;w=60
	// gold 200 OK "minute";q=1000;w=60
	// gone 403 Forbidden
}

func ExampleParse() {
	set, err := rules.Parse("rules.json", []byte(`{"rules": [{"name": "all", "key": "ip", "limits": "10/s"}]}`))
	fmt.Println(set.Len(), err)
	// Output: 1 <nil>
}

func ExampleLoad() {
	_, err := rules.Load(filepath.Join(os.TempDir(), "no such", "rules.yaml"))
	fmt.Println(errors.Is(err, os.ErrNotExist))
	// Output: true
}

// An error has the place of each problem.
func ExampleParse_problems() {
	_, err := rules.Parse("rules.yaml", []byte("rules:\n- {name: login, key: ip, limits: 10/fortnight}\n- {name: api, limits: 1/s}"))
	fmt.Println(err)
	// Output:
	// rules.yaml:2:34: rules[0].limits: no unit "fortnight", want second, minute, hour, day, week, or a length of time like 30s
	// rules.yaml:3:3: rules[1]: no key: say whose requests count together, ip or header:NAME for instance, or all
}

// The zero Set has no rules, and lets all requests pass.
func ExampleSet() {
	client := connect()
	var set rules.Set
	fmt.Println(set.Len(), ask(set.Middleware(client)(hello), "GET", "/").Status)
	// Output: 0 200 OK
}

// A limiter that Java programs use gets the rate of the file.
func ExampleSet_SetRates() {
	client := connect()

	set, err := rules.Parse("rules.yaml", []byte("rules: [{name: paid, limits: {redisson: paid-api, rate: 100/s}}]"))
	if err != nil {
		panic(err)
	}
	if err := set.SetRates(context.Background(), client); err != nil {
		panic(err)
	}
	rate, err := client.Limiter("paid-api").Config(context.Background()) // redisson.getRateLimiter("paid-api") in Java
	fmt.Println(rate.Permits, rate.Interval, err)
	// Output: 100 1s <nil>
}

// A report names the rules that decided.
func ExampleMatched() {
	client := connect()

	set, err := rules.Parse("rules.yaml", []byte(`
match: all
rules:
  - {name: each, key: ip, limits: 10/h}
  - {name: together, key: all, limits: 100/h}`))
	if err != nil {
		panic(err)
	}
	report := httplimit.Report(func(r *http.Request, o limit.Outcome) {
		fmt.Println(strings.Join(rules.Matched(r.Context()), " and "), o.Result)
	})
	ask(set.Middleware(client, unhurried, report)(hello), "GET", "/")
	// Output: each and together acquired
}

// Only log-ins that fail count.
func ExampleSettle() {
	client := connect()

	set, err := rules.Parse("rules.yaml", []byte("rules: [{name: login, key: ip, limits: 1/h}]"))
	if err != nil {
		panic(err)
	}
	login := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Password") == "right" {
			if err := rules.Settle(r.Context(), 0); err != nil {
				panic(err)
			}
		}
	})
	handler := set.Middleware(client, unhurried)(login)
	for _, password := range []string{"right", "right", "wrong", "right"} {
		fmt.Println(ask(handler, "POST", "/login", "Password", password).Status)
	}
	// Output:
	// 200 OK
	// 200 OK
	// 200 OK
	// 429 Too Many Requests
}

// nginx, Traefik or Caddy asks the handler before it forwards a request.
func ExampleSet_ForwardAuth() {
	client := connect()

	set, err := rules.Parse("rules.yaml", []byte(`
address: {trusted: [192.0.2.1]} # the proxy
rules: [{name: login, match: POST /login, key: ip, limits: {rate: 1/h, policy: fixed_window}}]`))
	if err != nil {
		panic(err)
	}
	auth := set.ForwardAuth(client, unhurried)
	for range 2 {
		r := httptest.NewRequest(http.MethodGet, "/auth", nil)
		r.Header.Set("X-Forwarded-Method", "POST")
		r.Header.Set("X-Forwarded-Uri", "/login")
		r.Header.Set("X-Forwarded-For", "203.0.113.9")
		w := httptest.NewRecorder()
		auth.ServeHTTP(w, r)
		fmt.Println(w.Code, "remaining:", w.Header().Get("RateLimit-Remaining"))
	}
	// Output:
	// 200 remaining: 0
	// 429 remaining: 0
}

// put writes another file and renames it, so that no reader sees half of it.
func put(path, text string) {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		panic(err)
	}
}

// A wrong file is reported and changes nothing.
func ExampleWatch() {
	dir, err := os.MkdirTemp("", "rules")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "rules.yaml")
	put(path, "rules: [{name: a, ban: true}]")
	ctx, end := context.WithCancel(context.Background())
	defer end()

	reports := make(chan error)
	set, err := rules.Watch(ctx, path, rules.OnReload(func(err error) { reports <- err }))
	if err != nil {
		panic(err)
	}
	put(path, "rules: [{name: a, ban: true, limits: 5/s}]")
	_, reason, _ := strings.Cut((<-reports).Error(), "rules.yaml:")
	fmt.Println(reason, set.Len())
	put(path, "rules: []")
	fmt.Println(<-reports, set.Len())
	// Output:
	// 1:24: rules[0].ban: ban and limits: a rule has one of the two 1
	// <nil> 0
}
