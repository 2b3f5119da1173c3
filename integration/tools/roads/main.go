// Command roads prints as JSON which functions one call of each kind runs once everything is warm. It
// is built with coverage, and make roads compares what it prints with the ceilings:
//
//	cd integration && go run -cover -covermode=atomic -coverpkg=github.com/rratelimiter/rratelimiter/... ./tools/roads
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/coverage"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/limit"
	"github.com/rratelimiter/rratelimiter/rules"
)

const module = "github.com/rratelimiter/rratelimiter/"

// road is a kind of call, with the functions that it runs: their file and name.
type road struct {
	Name      string
	Functions []string
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

var covered = regexp.MustCompile(`(?m)^` + module + `(\S+\.go):\d+:\s+(\S+)\s+([\d.]+)%`)

// measure makes a call four times, and returns the shortest road of the last three: a pool may be
// empty by chance. What follows a reply counts, too.
func measure(name string, call func()) road {
	dir := must(os.MkdirTemp("", "road"))
	defer func() { check(os.RemoveAll(dir)) }()
	shortest := road{Name: name}
	for i := range 4 {
		check(coverage.ClearCounters())
		call()
		time.Sleep(50 * time.Millisecond)
		if functions := functionsRun(dir); i == 1 || i > 1 && len(functions) < len(shortest.Functions) {
			shortest.Functions = functions
		}
	}
	return shortest
}

// functionsRun returns the functions that ran since the counters were cleared.
func functionsRun(dir string) (functions []string) {
	dir = must(os.MkdirTemp(dir, ""))
	check(coverage.WriteMetaDir(dir))
	check(coverage.WriteCountersDir(dir))
	out, err := exec.Command("go", "tool", "covdata", "func", "-i="+dir).CombinedOutput()
	if err != nil {
		log.Panicf("%v: %s", err, out)
	}
	for _, f := range covered.FindAllStringSubmatch(string(out), -1) {
		if f[3] != "0.0" && !strings.HasPrefix(f[1], "integration/") {
			functions = append(functions, f[1]+" "+f[2])
		}
	}
	return functions
}

func main() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	server := must(miniredis.Run())
	defer server.Close()
	go expire(server)
	redis := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true}))
	defer redis.Close()
	client := rratelimiter.New(redis)
	generous := limit.FixedWindow{Permits: 1 << 30, Interval: time.Minute}
	keyed := limit.NewKeyed(client, "keyed", generous)
	rate := rratelimiter.Rate{Permits: 1 << 30, Interval: time.Minute}
	limiter := client.Limiter("limiter", rratelimiter.InitialRate(rate))
	waits := limit.New(client, "waits", limit.FixedWindow{Permits: 1, Interval: 300 * time.Millisecond})
	dir := must(os.MkdirTemp("", "rules"))
	defer func() { check(os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "rules.yaml")
	permits := 1_000_000
	write := func() {
		permits++
		text := fmt.Sprintf("rules:\n  - {name: a, match: /x, key: ip, limits: %d/m}\n", permits)
		check(os.WriteFile(file, []byte(text), 0o600))
	}
	write()
	set := must(rules.Watch(ctx, file, rules.Rates(client)))

	check(json.NewEncoder(os.Stdout).Encode([]road{
		measure("Keyed.TryAcquire", func() { must(keyed.TryAcquire(context.Background(), "user", 1)) }),
		measure("Limiter.TryAcquire", func() { must(limiter.TryAcquire(context.Background(), 1)) }),
		measure("Keyed.TryAcquire, context that ends", func() { must(keyed.TryAcquire(ctx, "user", 1)) }),
		measure("Acquire, which waits", func() {
			for range 2 {
				check(waits.Acquire(context.Background(), 1))
			}
		}),
		measure("httplimit.Middleware(Each), a request", request(
			httplimit.Middleware(httplimit.Each(client, "api", httplimit.ByIP(), generous)))),
		measure("rules, a reload", func() { // of a file that no middleware uses
			write()
			time.Sleep(time.Second) // until the file is read
		}),
		measure("rules, a file compiled for a middleware", func() { set.Middleware(client) }),
		measure("rules, a request", request(set.Middleware(client))),
	}))
}

// expire has the keys of a server expire, which ends windows: miniredis does it by no clock.
func expire(server *miniredis.Miniredis) {
	const step = 10 * time.Millisecond
	for range time.Tick(step) {
		server.FastForward(step)
	}
}

// request makes a request that a middleware lets pass.
func request(middleware func(http.Handler) http.Handler) func() {
	h := middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/x", nil))
		if w.Code != http.StatusOK {
			log.Panic(w.Code)
		}
	}
}
