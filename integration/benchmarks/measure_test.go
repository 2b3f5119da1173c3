package benchmarks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// take requests permits of the name with that index. Calls of different callers run at the same
// time; those of one caller do not.
type take func(ctx context.Context, caller, name int, permits int64) (bool, error)

// session is a connected library, with its limiters set.
type session struct {
	take   take
	drive  func(b *testing.B, l load, m *meter) tally // of callers in another process; nil: drive
	settle func(b *testing.B)                         // before the permits in Redis are compared; nil: nothing
}

// compare runs a benchmark for each of the libraries, in random order, so that none always follows
// another one.
func compare(b *testing.B, l load, keys ...string) {
	for _, i := range rand.Perm(len(keys)) {
		b.Run("library="+keys[i], func(b *testing.B) {
			redis := shared(b)
			if l.cluster {
				redis = sharedCluster(b)
			}
			measure(b, redis, find(b, keys[i]), l)
		})
	}
}

// measure runs the load on a library for the benchmark time and reports its figures.
func measure(b *testing.B, redis *server, lib library, l load) (tally, *meter) {
	if l.addr == "" {
		l.addr = redis.addr
	}
	redis.clear(b)
	heap := heapInUse()
	s := lib.open(b, redis, l)
	var prepared int64
	if l.denied && lib.key != emptyScript {
		prepared = exhaust(b, s.take, l)
	}
	runtime.GC()
	m := &meter{redis: redis}
	var t tally
	switch {
	case s.drive != nil:
		t = s.drive(b, l, m)
	case l.rate > 0:
		t = arrive(b, s.take, l, m)
	default:
		t = drive(b, s.take, l, m)
	}
	if s.settle != nil {
		s.settle(b)
	}
	t.allPermits += prepared
	why := t.refused(l)
	if why == "" && lib.recorded {
		why = redis.account(b, l, t.allPermits)
	}
	if why != "" {
		b.Fatal(why) // prints no figures
	}
	m.report(b, t)
	if l.rate > 0 {
		b.ReportMetric(float64(t.latency.ValueAtQuantile(99.9)), "p99.9-ns")
	}
	if l.ping > 0 {
		// No caller calls again before it has the answer.
		bound := float64(l.callers) * m.elapsed.Seconds() / l.ping.Seconds()
		b.ReportMetric(float64(t.decisions)/bound, "of-bound")
	}
	if len(l.names) > 1 && s.drive == nil {
		b.ReportMetric(float64(heapInUse()-heap), "heap-B")
	}
	return t, m
}

// drive runs the callers for the warm-up, and then with counting until the benchmark time is over.
func drive(b *testing.B, take take, l load, m *meter) tally {
	ctx := context.Background()
	var counting, stop atomic.Bool
	callers := make([]*caller, l.callers)
	for i := range callers {
		callers[i] = newCaller(i, l)
	}
	var running sync.WaitGroup
	for _, c := range callers {
		running.Go(func() {
			for !stop.Load() {
				c.call(ctx, take, l, counting.Load())
			}
		})
	}
	time.Sleep(l.warmup)
	m.begin(b)
	counting.Store(true)
	// Only b.Loop knows when the benchmark time is over. It counts no calls: a pool may let one caller
	// wait until all others have ended.
	for b.Loop() {
		time.Sleep(5 * time.Millisecond)
	}
	counting.Store(false)
	m.end(b, b.Elapsed())
	stop.Store(true)
	running.Wait()
	total := newTally()
	for _, c := range callers {
		total.add(&c.tally)
	}
	return total
}

// exhaust takes the permits of a scarce limit, so that only denials follow. A call with a context
// that can end would put a connection of rueidis into pipelining permanently, before the first
// measured call.
func exhaust(b testing.TB, take take, l load) (permits int64) {
	for name := range l.names {
		for granted, err := take(context.Background(), 0, name, 1); granted || err != nil; {
			require.NoError(b, err)
			permits++
			require.LessOrEqual(b, permits, l.limit.permits*int64(len(l.names)), "granted beyond the limit")
			granted, err = take(context.Background(), 0, name, 1)
		}
	}
	return permits
}

// refused returns why a run is not reported: its calls did not have the answer that was expected.
func (t *tally) refused(l load) string {
	n := float64(t.decisions)
	const tolerated = 0.001 // of denials: a permit that a slow caller got before the first count
	switch share := float64(t.granted) / n; {
	case t.decisions < int64(l.callers):
		return fmt.Sprintf("%d decisions are too few", t.decisions)
	case t.failed > 0:
		return fmt.Sprintf("%.2g%% of the calls failed: %v", 100*float64(t.failed)/n, t.err)
	case !l.denied && t.granted != t.decisions:
		return fmt.Sprintf("%.2g%% of the calls were denied", 100*(1-share))
	case l.denied && share > tolerated:
		return fmt.Sprintf("%.2g%% of the calls were granted", 100*share)
	}
	return ""
}

// meter has what the server and this process used between begin and end.
type meter struct {
	redis     *server
	server    usage
	clientCPU time.Duration
	allocs    float64 // negative if unknown
	elapsed   time.Duration
}

func (m *meter) begin(b *testing.B) {
	m.server, m.clientCPU, m.allocs = m.redis.usage(b), processCPU(), mallocs()
}

func (m *meter) end(b *testing.B, elapsed time.Duration) {
	m.elapsed = elapsed
	m.clientCPU, m.allocs = processCPU()-m.clientCPU, mallocs()-m.allocs
	m.server = m.redis.usage(b).minus(m.server)
}

func (m *meter) add(other *meter) {
	m.elapsed += other.elapsed
	m.clientCPU += other.clientCPU
	m.allocs += other.allocs
	m.server = m.server.plus(other.server)
}

// report reports the figures of a decision. Those of the server are zero without calls.
func (m *meter) report(b *testing.B, t tally) {
	n := float64(t.decisions)
	b.ReportMetric(float64(m.elapsed)/n, "ns/op")
	b.ReportMetric(float64(t.latency.ValueAtQuantile(50)), "p50-ns")
	b.ReportMetric(float64(t.latency.ValueAtQuantile(99)), "p99-ns")
	b.ReportMetric(float64(m.server.cpu)/n, "server-ns/op")
	b.ReportMetric(float64(m.clientCPU)/n, "client-ns/op")
	b.ReportMetric(m.server.scripts/n, "calls/op")
	if m.allocs >= 0 {
		b.ReportMetric(m.allocs/n, "mallocs/op")
	}
}

// processCPU returns the processor time that this process has used.
func processCPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func mallocs() float64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.Mallocs)
}

func heapInUse() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapInuse)
}
