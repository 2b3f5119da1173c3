// Package rulestest has the fixtures that tests of rules share.
package rulestest

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"

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

// TwoRules returns a file of two rules that decide one after another, with these names.
func TwoRules(first, second string) string {
	return "match: all\nrules:\n- {name: " + first + ", key: all, limits: 1000/h}\n" +
		"- {name: " + second + ", key: all, limits: 1000/h, cost: 2}\n"
}

// Hold holds requests of middleware after their first decision.
type Hold struct {
	mu      sync.Mutex
	names   map[string]int // decisions by limiter
	release chan struct{}
}

// NewHold returns a Hold whose Report is to be the callback of the decisions.
func NewHold() *Hold { return &Hold{names: make(map[string]int), release: make(chan struct{})} }

// Report counts a decision, and holds its request if it is the first one.
func (h *Hold) Report(limiter string) {
	h.mu.Lock()
	h.names[limiter]++
	h.mu.Unlock()
	<-h.release
}

// Test sends 100 requests, replaces the file TwoRules("a", "b") while all of them are held, and checks
// that the old file decides them, twice each. Then it checks that the new one, TwoRules("c", "d"),
// decides the next request.
func (h *Hold) Test(t *testing.T, send, replace func()) {
	var requests sync.WaitGroup
	for range 100 {
		requests.Go(send)
	}
	synctest.Wait()
	assert.Equal(t, map[string]int{"a": 100}, h.names)
	replace()
	close(h.release)
	requests.Wait()
	assert.Equal(t, map[string]int{"a": 100, "b": 100}, h.names)
	send()
	assert.Equal(t, map[string]int{"a": 100, "b": 100, "c": 1, "d": 1}, h.names)
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
