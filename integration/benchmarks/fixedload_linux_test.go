package benchmarks

import (
	"context"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkFixedLoad has calls at random times, as users make them: none waits for the reply of another
// one. The row x-time-rate is what the calls cost by themselves. With a deadline, each call has its own.
func BenchmarkFixedLoad(b *testing.B) {
	l := grantingNames(1, 10_000)
	l.rate = 20_000
	b.Run("names=10000/rate=20000", func(b *testing.B) {
		compare(b, l, ours, "FixedWindow", "FixedWindow+flushdelay", "TokenBucket", script, emptyScript, "x-time-rate",
			"rueidislimiter", "rueidislimiter+pool", "rueidislimiter+flushdelay", "redis_rate", "redis_rate+autopipeline",
			"redis_rate+8pipelines", "go-redisstore", "ulule", "ulule+autopipeline", "ulule+8pipelines")
	})
	b.Run("names=10000/rate=20000/context=deadline", func(b *testing.B) {
		l := l
		l.context = deadline
		compare(b, l, "FixedWindow", "FixedWindow+flushdelay", "x-time-rate", "rueidislimiter",
			"rueidislimiter+flushdelay", "ulule", "ulule+8pipelines")
	})
}

// arrivals makes the calls of a fixed load, at the same times for each library.
type arrivals struct {
	load
	random *rand.Rand
	mu     sync.Mutex
	tally
}

func newArrivals(l load) *arrivals {
	return &arrivals{load: l, random: rand.New(rand.NewPCG(1, 1)), tally: newTally()}
}

// arrive makes calls for the warm-up, and then with counting for some seconds.
func arrive(b *testing.B, take take, l load, m *meter) tally {
	const counted = 2 * time.Second // with 40 calls beyond p99.9
	a, clock := newArrivals(l), newAlarm(b)
	a.run(b, clock, take, l.warmup, false)
	m.begin(b)
	start := time.Now()
	for b.Loop() {
		a.run(b, clock, take, counted, true)
	}
	m.end(b, time.Since(start))
	return a.tally
}

// run makes each call on a goroutine of its own, and returns after all replies. A latency begins when
// its call was due, so that a late start counts, too.
func (a *arrivals) run(b testing.TB, clock alarm, take take, lasting time.Duration, counted bool) {
	var calls sync.WaitGroup
	start, meanGap := time.Now(), float64(time.Second)/a.rate
	for due := time.Duration(0); due < lasting; due += time.Duration(a.random.ExpFloat64() * meanGap) {
		name := a.random.IntN(len(a.names))
		clock.sleep(b, due-time.Since(start))
		calls.Go(func() {
			ctx, cancel := a.context.make(context.Background())
			granted, err := take(ctx, 0, name, 1)
			cancel()
			took := time.Since(start) - due
			a.mu.Lock()
			defer a.mu.Unlock()
			if granted {
				a.allPermits++
			}
			if counted {
				a.count(granted, err)
				_ = a.latency.RecordValue(took.Nanoseconds())
			}
		})
	}
	calls.Wait()
}

// alarm sleeps for less than a millisecond, which time.Sleep does not. Meanwhile other goroutines run.
type alarm struct {
	file       *os.File
	descriptor int
}

func newAlarm(b testing.TB) alarm {
	descriptor, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	require.NoError(b, err)
	file := os.NewFile(uintptr(descriptor), "timerfd")
	b.Cleanup(func() { _ = file.Close() })
	return alarm{file, descriptor}
}

func (a alarm) sleep(b testing.TB, d time.Duration) {
	if d <= 0 {
		return
	}
	setting := &unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}
	require.NoError(b, unix.TimerfdSettime(a.descriptor, 0, setting, nil))
	var expirations [8]byte
	_, err := a.file.Read(expirations[:])
	require.NoError(b, err)
}

// Calls that come while an earlier one blocks the others count their whole wait.
func TestArrivals_SlowReplies_DelayNoCall(t *testing.T) {
	l := granting(1)
	l.rate = 1000
	a := newArrivals(l)
	var mu sync.Mutex
	a.run(t, newAlarm(t), func(context.Context, int, int, int64) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		time.Sleep(5 * time.Millisecond)
		return true, nil
	}, 100*time.Millisecond, true)
	require.InDelta(t, 100, a.decisions, 40)
	require.Equal(t, a.decisions, a.allPermits)
	require.Greater(t, time.Duration(a.latency.ValueAtQuantile(50)), 100*time.Millisecond)
}

func TestAlarm_ShortTimes_AreSlept(t *testing.T) {
	clock := newAlarm(t)
	shortest := time.Hour
	for range 100 {
		start := time.Now()
		clock.sleep(t, 100*time.Microsecond)
		took := time.Since(start)
		require.GreaterOrEqual(t, took, 100*time.Microsecond)
		shortest = min(shortest, took)
	}
	require.Less(t, shortest, 500*time.Microsecond)
}
