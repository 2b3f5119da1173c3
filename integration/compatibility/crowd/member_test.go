package crowd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
)

// memberEnv makes this test binary a member of the crowd: it holds the task.
const memberEnv = "CROWD_MEMBER"

// task is what a Go process of the crowd has to do.
type task struct {
	Addr, Limiter string
	Begin, End    time.Time
}

// report is what it came to.
type report struct {
	Grants     []ledger.Grant
	Denials    int64
	Errors     map[string]int64 // by text
	Goroutines int              // left after the end
}

// startMember runs the task in a process of its own. The function that it returns waits for the
// process and its report.
func startMember(ctx context.Context, t task) (wait func() (report, error), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), memberEnv+"="+string(spec))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() (r report, err error) {
		text, readErr := io.ReadAll(stdout)
		if err := errors.Join(readErr, cmd.Wait()); err != nil {
			return report{}, fmt.Errorf("a Go process of the crowd: %w", err)
		}
		return r, json.Unmarshal(text, &r)
	}, nil
}

// member is the main function of a Go process of the crowd.
func member(spec string) error {
	var t task
	if err := json.Unmarshal([]byte(spec), &t); err != nil {
		return err
	}
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

// acquire takes permits from Begin to End with two callers for each way to take some.
func (t task) acquire(l *rratelimiter.Limiter, book *ledger.Ledger) {
	time.Sleep(time.Until(t.Begin))
	ctx, cancel := context.WithDeadline(context.Background(), t.End)
	defer cancel()
	ways := []func(permits int64) (bool, error){
		func(permits int64) (bool, error) { return l.TryAcquire(ctx, permits) },
		func(permits int64) (bool, error) { return l.TryAcquireWithin(ctx, permits, 200*time.Millisecond) },
		func(permits int64) (bool, error) { return true, l.Acquire(ctx, permits) },
		func(permits int64) (bool, error) { // and has often gone when its permits come, which go back
			ctx, cancel := context.WithTimeout(ctx, time.Duration(rand.Int64N(int64(2*time.Millisecond))))
			defer cancel()
			return l.TryAcquire(ctx, permits)
		},
	}
	var callers sync.WaitGroup
	for i := range 2 * len(ways) {
		callers.Go(func() {
			for time.Now().Before(t.End) {
				permits := 1 + rand.Int64N(3)
				granted, err := book.Time("go", permits, func() (bool, error) {
					granted, err := ways[i%len(ways)](permits)
					if errors.Is(err, context.DeadlineExceeded) {
						return false, nil // the run is over, or will be before the permits are there
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

// left counts the goroutines beyond those of before, once they had time to end.
func left(before int) int {
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	return runtime.NumGoroutine() - before
}
