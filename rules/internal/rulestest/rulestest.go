// Package rulestest has the fixtures that tests of rules share.
package rulestest

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
)

// Offline is a Client without Redis, for tests that send it nothing.
var Offline = rratelimiter.New(noRedis{})

type noRedis struct{ rueidis.Client }

func (noRedis) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }

// One returns a file of the rule "a" with some fields.
func One(fields string) string { return "rules:\n- {name: a, " + fields + "}\n" }

// Large returns a file of so many rules, each with a path, two keys, two limits and a failure mode of
// its own.
func Large(rules int) string {
	var b strings.Builder
	b.WriteString("domain: shop\nrules:\n")
	for i := range rules {
		fmt.Fprintf(&b,
			"  - name: rule-%d\n    match: GET /api/v1/service-%d/{id}\n    key: [ip, \"header:X-Tenant\"]\n    limits:\n", i, i)
		fmt.Fprintf(&b, "      - %d/s\n      - {policy: token_bucket, capacity: 20, rate: 100/m}\n    on_failure: open\n",
			10+i)
	}
	return b.String()
}

// Request returns a request like "POST /login", with pairs of header names and values.
func Request(what string, headers ...string) *http.Request {
	method, target, _ := strings.Cut(what, " ")
	r := httptest.NewRequest(method, target, nil) // of 192.0.2.1
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// Allocated returns the number of bytes that a function allocates: the least of three runs, beside which other
// goroutines may allocate too.
func Allocated(f func()) (least uint64) {
	least = math.MaxUint64
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		least = min(least, after.TotalAlloc-before.TotalAlloc)
	}
	return least
}

// Contract returns a file with a limit of [guardtest.TestChoices]. The exceptions of a client's request
// are in it too.
func Contract(by string) string {
	const limits = "limits: {rate: 1/h, policy: fixed_window}}\n"
	file := "address: {trusted: 10.0.0.1}\nrules:\n"
	switch by {
	case guardtest.ByHeader:
		return file + "- {name: a, key: header:Key, " +
			"overrides: [{key: k, limits: {rate: 1/h, policy: sliding_log}}], " + limits
	case guardtest.ByBinary:
		return file + "- {name: a, match: {grpc: '*'}, key: header:Key-Bin, " + limits
	case guardtest.ByClient:
		return file + "- {name: a, key: ip, skip: {ranges: 203.0.113.0/24}, " + limits
	case guardtest.ByRPC:
		return file + "- {name: a, match: {grpc: /shop.Login/Do}, key: all, " + limits
	}
	return file + "- {name: a, match: shop.example/login, key: all, " +
		"skip: {methods: [OPTIONS], paths: [/static/]}, " + limits
}
