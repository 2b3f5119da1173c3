package oracle

import (
	"context"
	"errors"
	"time"
)

// Bench is a load for which only numbers are kept: Java callers that call tryAcquire(permits) again and again, without a pause.
type Bench struct {
	Limiters int // how many, at random: named by the limiter's own name and a number from 0 on
	Callers  int // threads, or where Async is set, chains of tryAcquireAsync(permits)
	Async    bool
	Permits  int64 // of each call
	Duration time.Duration
}

// BenchResult is what the calls of a Bench came to.
type BenchResult struct {
	Decisions, Granted, Failed int64 // Failed are among Decisions
	Err                        error // of one call that failed
	Elapsed                    time.Duration
	CPU                        time.Duration // of the whole Java process
	// Latencies counts calls by how long they took: up to 127 ns at that index, and above, for each power of two, 64 counts more.
	Latencies []uint32
}

// Bench lets the load loose on limiters whose names begin with this one's, and returns when its time is over.
func (l *Limiter) Bench(ctx context.Context, b Bench) (BenchResult, error) {
	got, err := ask[struct {
		Decisions, Granted, Failed int64
		Error                      string
		ElapsedNanos, CPUNanos     int64
		Latencies                  []uint32
	}](ctx, l, request{
		Call:     "bench",
		Limiters: b.Limiters,
		Threads:  b.Callers,
		Async:    b.Async,
		Permits:  &b.Permits,
		Millis:   millis(b.Duration),
	})
	if err != nil {
		return BenchResult{}, err
	}
	result := BenchResult{
		Decisions: got.Decisions,
		Granted:   got.Granted,
		Failed:    got.Failed,
		Elapsed:   time.Duration(got.ElapsedNanos),
		CPU:       time.Duration(got.CPUNanos),
		Latencies: got.Latencies,
	}
	if got.Error != "" {
		result.Err = errors.New(got.Error)
	}
	return result, nil
}
