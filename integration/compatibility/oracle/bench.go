package oracle

import (
	"context"
	"errors"
	"time"
)

// Bench is a load that keeps only numbers: Java callers that call tryAcquire(permits) without a
// pause.
type Bench struct {
	Limiters int // how many, at random: named by the limiter's own name and a number from 0 on
	Callers  int // threads, or where Async is set, chains of tryAcquireAsync(permits)
	Async    bool
	Permits  int64 // of each call
}

// BenchResult has the results of the counted calls of a Bench.
type BenchResult struct {
	Decisions, Granted, Failed int64 // Failed are among Decisions
	AllGranted                 int64 // also of calls that were not counted
	Err                        error // of one call that failed
	Elapsed                    time.Duration
	CPU                        time.Duration // of the whole Java process
	// Latencies counts calls by how long they took: up to 127 ns at that index, and above, for each
	// power of two, 64 counts more.
	Latencies []uint32
}

// RunningBench is a Bench whose callers run until Stop.
type RunningBench struct{ l *Limiter }

// StartBench starts the load on limiters whose names begin with this one's, and returns when every
// caller has begun.
func (l *Limiter) StartBench(ctx context.Context, b Bench) (*RunningBench, error) {
	_, err := send[any](ctx, l,
		request{Call: "benchStart", Limiters: b.Limiters, Threads: b.Callers, Async: b.Async, Permits: b.Permits})
	return &RunningBench{l}, err
}

// Count counts the calls that begin within d from now, in addition to those counted before.
func (r *RunningBench) Count(ctx context.Context, d time.Duration) error {
	_, err := send[any](ctx, r.l, request{Call: "benchCount", Millis: d.Milliseconds()})
	return err
}

// Stop ends the callers.
func (r *RunningBench) Stop(ctx context.Context) (BenchResult, error) {
	got, err := send[struct {
		Decisions, Granted, AllGranted, Failed int64
		Error                                  string
		ElapsedNanos, CPUNanos                 int64
		Latencies                              []uint32
	}](ctx, r.l, request{Call: "benchStop"})
	if err != nil {
		return BenchResult{}, err
	}
	result := BenchResult{
		Decisions:  got.Decisions,
		Granted:    got.Granted,
		AllGranted: got.AllGranted,
		Failed:     got.Failed,
		Elapsed:    time.Duration(got.ElapsedNanos),
		CPU:        time.Duration(got.CPUNanos),
		Latencies:  got.Latencies,
	}
	if got.Error != "" {
		result.Err = errors.New(got.Error)
	}
	return result, nil
}
