package oracle

import (
	"context"
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
	Decisions, Granted, Failed int64         // Failed are among Decisions
	AllGranted                 int64         // also of calls that were not counted
	Error                      string        // of one call that failed
	Elapsed                    time.Duration `json:"elapsedNanos"`
	CPU                        time.Duration `json:"cpuNanos"` // of the whole Java process
	// Latencies counts calls by how long they took: up to 127 ns at that index, and above, for each
	// power of two, 64 counts more.
	Latencies []uint32
}

// StartBench starts the load on limiters whose names begin with this one's, and returns when every
// caller has begun. The callers run until StopBench.
func (l *Limiter) StartBench(ctx context.Context, b Bench) error {
	_, err := send[any](ctx, l,
		request{Call: "benchStart", Limiters: b.Limiters, Threads: b.Callers, Async: b.Async, Permits: b.Permits})
	return err
}

// CountBench counts the calls that begin within d from now, in addition to those counted before.
func (l *Limiter) CountBench(ctx context.Context, d time.Duration) error {
	_, err := send[any](ctx, l, request{Call: "benchCount", Millis: d.Milliseconds()})
	return err
}

// StopBench ends the callers.
func (l *Limiter) StopBench(ctx context.Context) (BenchResult, error) {
	return send[BenchResult](ctx, l, request{Call: "benchStop"})
}
