package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// limit is a rate that every contender can set.
type limit struct {
	permits  int64
	interval time.Duration
}

// expectation is the intended result of a load. A run with another result is not reported.
type expectation int

const (
	allGranted expectation = iota
	allDenied
)

// load describes the calls of the callers.
type load struct {
	addr       string
	callers    int
	names      []string
	maxPermits int64 // calls ask for 1 to so many permits, at random
	limit      limit
	expect     expectation
	context    contextKind
	warmup     time.Duration // if a contender needs more than the usual one
}

// contextKind is the context of the calls. It decides how rueidis runs a call: on the caller's
// goroutine or, if the context can end and has no deadline, on two others. A contender that returns
// as soon as the context ends needs another goroutine, too.
type contextKind int

const (
	endless     contextKind = iota // one context for all calls, which cannot end
	deadline                       // one for each call, that ends after a second
	cancellable                    // one for each call, that is cancelled
)

func (k contextKind) String() string {
	return []string{"no end", "a deadline", "cancellable"}[k]
}

// make makes the context of one call, as users do.
func (k contextKind) make(ctx context.Context) (context.Context, context.CancelFunc) {
	switch k {
	case deadline:
		return context.WithTimeout(ctx, time.Second)
	case cancellable:
		return context.WithCancel(ctx)
	default:
		return ctx, func() {}
	}
}

// Few runs grant a milliard permits, and a window of an hour keeps all grants of a run: each can be
// checked.
var (
	generous = limit{1_000_000_000, time.Hour}
	scarce   = limit{10, time.Hour}
)

const namePrefix = "limiter-"

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = namePrefix + strconv.Itoa(i)
	}
	return list
}

// tally is the result of the calls of a run.
type tally struct {
	decisions, granted, permits int64
	failed                      int64
	err                         error // one of those that failed
	elapsed                     time.Duration
	latency                     histogram
	clientCPU                   time.Duration
	allocs                      float64 // of all calls; negative if unknown
	allPermits                  int64   // granted since the session began, warm-up and preparation included
}

// caller is one goroutine that calls in a loop. Its figures are its own until it has ended.
type caller struct {
	tally
	_ [64]byte
}

// drive runs the callers for warmup, and then for d with counting. began and ended are called
// around that.
func drive(ctx context.Context, s *session, l load, warmup, d time.Duration, began func() error,
	ended func() error) (tally, error) {
	ctx = context.WithoutCancel(ctx) // the callers end by stop
	var counting, stop atomic.Bool
	callers := make([]caller, l.callers)
	var running sync.WaitGroup
	for i := range callers {
		running.Go(func() { callers[i].call(ctx, s, i, l, &counting, &stop) })
	}
	time.Sleep(warmup)
	err := began()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := processCPU(), time.Now()
	counting.Store(true)
	time.Sleep(d)
	counting.Store(false)
	total := tally{elapsed: time.Since(start), clientCPU: processCPU() - cpu}
	runtime.ReadMemStats(&after)
	total.allocs = float64(after.Mallocs - before.Mallocs)
	err = errors.Join(err, ended())
	stop.Store(true)
	running.Wait()
	for i := range callers {
		total.add(&callers[i].tally)
	}
	return total, err
}

func (t *tally) add(other *tally) {
	t.decisions += other.decisions
	t.granted += other.granted
	t.permits += other.permits
	t.failed += other.failed
	t.allPermits += other.allPermits
	t.latency.merge(&other.latency)
	if other.err != nil {
		t.err = other.err
	}
}

// With many callers, one call in so many is timed. To time each call costs a shared call a part of
// its rate: the histograms of all callers are larger than a cache.
const (
	manyCallers = 64
	timedOf     = 8
)

func (c *caller) call(ctx context.Context, s *session, self int, l load, counting, stop *atomic.Bool) {
	random := rand.New(rand.NewPCG(uint64(self), 1))
	every := 1
	if l.callers >= manyCallers {
		every = timedOf
	}
	start := time.Now()
	for turn := self; !stop.Load(); turn++ {
		name, permits := 0, int64(1)
		if len(l.names) > 1 {
			name = random.IntN(len(l.names))
		}
		if l.maxPermits > 1 {
			permits = 1 + random.Int64N(l.maxPermits)
		}
		counted, timed := counting.Load(), turn%every == 0
		if timed && every > 1 {
			start = time.Now()
		}
		callCtx, cancel := l.context.make(ctx)
		granted, err := s.take(callCtx, self, name, permits)
		cancel()
		if timed {
			end := time.Now()
			if counted {
				c.latency.add(end.Sub(start))
			}
			start = end
		}
		if granted {
			c.allPermits += permits
		}
		if counted {
			c.count(granted, permits, err)
		}
	}
}

func (t *tally) count(granted bool, permits int64, err error) {
	t.decisions++
	switch {
	case err != nil:
		t.failed++
		t.err = err
	case granted:
		t.granted++
		t.permits += permits
	}
}

// exhaust takes the permits of a scarce limit, so that only denials follow. A call with a context
// that can end would put a connection of rueidis into pipelining permanently, before the first
// measured call.
func exhaust(ctx context.Context, s *session, l load) (permits int64, err error) {
	ctx = context.WithoutCancel(ctx)
	for name := range l.names {
		for tries := int64(0); ; tries++ {
			granted, err := s.take(ctx, 0, name, 1)
			if err != nil {
				return permits, err
			}
			if !granted {
				break
			}
			if permits++; tries > l.limit.permits {
				return permits, fmt.Errorf("%d permits of a limit of %d were granted at once", tries+1, l.limit.permits)
			}
		}
	}
	return permits, nil
}
