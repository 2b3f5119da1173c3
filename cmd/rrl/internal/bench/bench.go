// Package bench puts load on a new limiter and measures the latencies.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/connect"
)

// Load describes a load.
type Load struct {
	Callers int
	Lasts   time.Duration
	Rate    rratelimiter.Rate
	Options []rratelimiter.Option
}

// Result is the result of a load. Latencies are those of calls with a decision.
type Result struct {
	Limiter string        `json:"limiter"`
	Callers int           `json:"callers"`
	Seconds float64       `json:"seconds"`
	Granted int           `json:"granted"`
	Denied  int           `json:"denied"`
	Failed  int           `json:"failed"`
	PerS    float64       `json:"decisions_per_second"`
	P50     time.Duration `json:"p50_ns"`
	P99     time.Duration `json:"p99_ns"`
	Max     time.Duration `json:"max_ns"`
}

// Run puts load on a new limiter with a unique name and deletes the limiter at the end. If ctx ends first,
// the result has the calls so far.
func Run(ctx context.Context, redis *connect.Redis, load Load) (result Result, err error) {
	limiter := rratelimiter.New(redis.Client, load.Options...).Limiter("rrl-bench:" + uuid.NewString())
	result = Result{Limiter: limiter.Name(), Callers: load.Callers}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if _, deleteErr := limiter.Delete(last); deleteErr != nil {
			err = errors.Join(err, fmt.Errorf("the limiter %q was not deleted, delete it: %w", limiter.Name(),
				redis.Explain(deleteErr)))
		}
	}()
	// If this process is killed, the limiter expires.
	load.Rate.KeepAlive = max(load.Rate.Interval, time.Minute)
	if err := limiter.SetRate(ctx, load.Rate); err != nil {
		return result, redis.Explain(err)
	}
	until, cancel := context.WithTimeout(ctx, load.Lasts)
	defer cancel()
	var mu sync.Mutex
	var latencies []time.Duration
	var failure error
	var wg sync.WaitGroup
	began := time.Now()
	for range load.Callers {
		wg.Go(func() {
			own, counts, err := call(until, limiter)
			mu.Lock()
			defer mu.Unlock()
			latencies = append(latencies, own...)
			result.Granted, result.Denied, result.Failed = result.Granted+counts[0], result.Denied+counts[1],
				result.Failed+counts[2]
			failure = errors.Join(failure, err)
		})
	}
	wg.Wait()
	result.Seconds = time.Since(began).Seconds()
	if len(latencies) == 0 {
		return result, redis.Explain(errors.Join(failure, ctx.Err()))
	}
	slices.Sort(latencies)
	result.P50, result.P99, result.Max = latencies[len(latencies)/2], latencies[len(latencies)*99/100],
		latencies[len(latencies)-1]
	result.PerS = float64(len(latencies)) / result.Seconds
	return result, nil
}

// call calls TryAcquire in a loop. It counts granted, denied and failed calls and returns the last error.
func call(ctx context.Context, limiter *rratelimiter.Limiter) (latencies []time.Duration, counts [3]int,
	failure error) {
	for ctx.Err() == nil {
		began := time.Now()
		granted, err := limiter.TryAcquire(ctx, 1)
		took := time.Since(began)
		switch {
		case ctx.Err() != nil:
			return latencies, counts, failure
		case err != nil:
			counts[2]++
			failure = err
			time.Sleep(10 * time.Millisecond) // a pause for a server that is down
			continue
		case granted:
			counts[0]++
		default:
			counts[1]++
		}
		latencies = append(latencies, took)
	}
	return latencies, counts, failure
}

// Text writes the result for people.
func (r Result) Text(w *strings.Builder) {
	fmt.Fprintf(w, "%s\n", r.Limiter)
	fmt.Fprintf(w, "  %d callers for %.1fs: %d granted, %d denied, %d failed\n", r.Callers, r.Seconds, r.Granted,
		r.Denied, r.Failed)
	fmt.Fprintf(w, "  %.0f decisions/s, latency p50 %v, p99 %v, max %v\n", r.PerS, round(r.P50), round(r.P99),
		round(r.Max))
	fmt.Fprintf(w, "  deleted\n")
}

func round(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
