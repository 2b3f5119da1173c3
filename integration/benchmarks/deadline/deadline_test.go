// Package deadline measures how many requests a Closed middleware refuses by its deadline while Redis
// is healthy and the host is busy. It chose the default of httplimit.Deadline.
//
//	go test ./integration/benchmarks/deadline -run '^$' -bench . -benchtime 60s
package deadline

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

const (
	busy    = 4 // loops for each core
	callers = 16
	pause   = 5 * time.Millisecond // of a caller between its requests
)

// BenchmarkDeadline has busy loops in other processes of the host, and then in that of the middleware.
func BenchmarkDeadline(b *testing.B) {
	redis := servers.Connect(b, rueidis.ClientOption{InitAddress: []string{servers.Single(b).Addr()}})
	client := rratelimiter.New(redis)
	for where, start := range map[string]func(b *testing.B){"host": spinProcess, "process": spinGoroutine} {
		for _, deadline := range []time.Duration{100, 250, 500, 1000} {
			deadline *= time.Millisecond
			b.Run("busy="+where+"/deadline="+deadline.String(), func(b *testing.B) {
				for range busy * runtime.GOMAXPROCS(0) {
					start(b)
				}
				measure(b, client, deadline)
			})
		}
	}
}

// spinProcess starts a process that is busy until the benchmark or this process ends.
func spinProcess(b *testing.B) {
	loop := exec.Command("sh", "-c", "while kill -0 $PPID 2>/dev/null; do :; done")
	require.NoError(b, loop.Start())
	b.Cleanup(func() { _ = loop.Process.Kill(); _ = loop.Wait() })
}

func spinGoroutine(b *testing.B) {
	var done atomic.Bool
	b.Cleanup(func() { done.Store(true) })
	go func() {
		for n := 0; !done.Load(); n++ {
			runtime.KeepAlive(n)
		}
	}()
}

// measure sends requests through a middleware with the deadline.
func measure(b *testing.B, client *rratelimiter.Client, deadline time.Duration) {
	var refused, outages atomic.Int64
	limited := httplimit.Middleware(
		httplimit.Each(client, "web", httplimit.ByIP(), limit.SlidingWindow{Permits: 1 << 40, Interval: time.Second}),
		httplimit.Deadline(deadline),
		httplimit.OnRedisChange(func(_ string, up bool, _ error) {
			if !up {
				outages.Add(1)
			}
		}),
	)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	var mu sync.Mutex
	took := hdrhistogram.New(1, time.Minute.Nanoseconds(), 3)
	var stop atomic.Bool
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for !stop.Load() {
				w, begin := httptest.NewRecorder(), time.Now()
				limited.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				mu.Lock()
				_ = took.RecordValue(time.Since(begin).Nanoseconds())
				mu.Unlock()
				if w.Code != http.StatusOK {
					refused.Add(1)
				}
				time.Sleep(pause)
			}
		})
	}
	for b.Loop() {
		time.Sleep(pause)
	}
	stop.Store(true)
	running.Wait()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(took.TotalCount()), "requests")
	b.ReportMetric(float64(refused.Load()), "refused")
	b.ReportMetric(float64(outages.Load()), "outages")
	b.ReportMetric(float64(took.ValueAtQuantile(50)), "p50-ns")
	b.ReportMetric(float64(took.ValueAtQuantile(99.9)), "p99.9-ns")
	b.ReportMetric(float64(took.Max()), "longest-ns")
}
