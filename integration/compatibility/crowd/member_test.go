package crowd_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
)

// task is the task of a Go process.
type task struct {
	Addr, Limiter string
	Begin, End    time.Time
}

// report has its results.
type report struct {
	Grants     []ledger.Grant
	Denials    int64
	Errors     map[string]int64 // by text
	Goroutines int              // left after the end
}

// member runs the task of a Go process.
func member(t task) error {
	idle := runtime.NumGoroutine()
	redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{t.Addr}})
	if err != nil {
		return err
	}
	book := ledger.New(error.Error)
	t.acquire(rratelimiter.New(redis).Limiter(t.Limiter), book)
	redis.Close()

	r := report{Grants: book.Grants(), Denials: book.Denials(), Errors: book.Errors(), Goroutines: left(idle)}
	return json.NewEncoder(os.Stdout).Encode(r)
}

// acquire takes permits from Begin to End with two callers for each call.
func (t task) acquire(l *rratelimiter.Limiter, book *ledger.Ledger) {
	time.Sleep(time.Until(t.Begin))
	ctx, cancel := context.WithDeadline(context.Background(), t.End)
	defer cancel()
	calls := []func(permits int64) (bool, error){
		func(permits int64) (bool, error) { return l.TryAcquire(ctx, permits) },
		func(permits int64) (bool, error) { return l.TryAcquireWithin(ctx, permits, 200*time.Millisecond) },
		func(permits int64) (bool, error) { return true, l.Acquire(ctx, permits) },
		func(permits int64) (bool, error) { // often cancelled, so that its permits are released
			ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.Int64N(int64(2*time.Millisecond))))
			defer cancel()
			return l.TryAcquire(ctx, permits)
		},
	}
	var callers sync.WaitGroup
	for i := range 2 * len(calls) {
		callers.Go(func() {
			for time.Now().Before(t.End) {
				permits := 1 + rand.Int64N(3)
				granted, err := book.Time("go", permits, func() (bool, error) {
					granted, err := calls[i%len(calls)](permits)
					if errors.Is(err, context.DeadlineExceeded) {
						return false, nil // the run ends before the permits are free
					}
					return granted, err
				})
				if err != nil || !granted {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	callers.Wait()
}

// left counts the goroutines above an earlier number, after they had time to end.
func left(before int) int {
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	return runtime.NumGoroutine() - before
}
