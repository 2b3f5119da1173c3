// Package prefetches_test runs callers with prefetches, in several Clients, and Redisson on one limiter. It
// checks that the limiter keeps its rate while Redis fails, and that a prefetch ends while its process is
// stopped.
//
// PREFETCH_LOAD is the duration of each load, by default 3s.
package prefetches_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

const (
	// memberEnv has the address of the Redis of a process of its own.
	memberEnv = "LEASE_MEMBER"

	memberPrefetch = 400 * time.Millisecond
)

// report has the times of the grants of a process, and the error that ended it.
type report struct {
	Grants []time.Time
	Error  string
}

// member takes one permit after another until a call fails. It writes a line when most permits come
// from prefetches, and its report.
func member(addr string) error {
	redis, err := rueidis.NewClient(single(addr))
	if err != nil {
		return err
	}
	defer redis.Close()
	var prefetched atomic.Int64
	limiter := rratelimiter.New(redis, rratelimiter.WithPrefetch(memberPrefetch),
		rratelimiter.WithObserver(countPrefetched(&prefetched))).Limiter(name)
	answers := json.NewEncoder(os.Stdout)
	var r report
	for warm := false; ; {
		start := time.Now()
		if err := limiter.Acquire(context.Background(), 1); err != nil {
			r.Error = err.Error()
			return answers.Encode(r)
		}
		r.Grants = append(r.Grants, start)
		if !warm && prefetched.Load() >= 10_000 {
			warm = true
			if err := answers.Encode(true); err != nil {
				return err
			}
		}
		if len(r.Grants)%50 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// A process that holds a prefetch is stopped, and the limiter deleted meanwhile, so that later grants
// come from the prefetch. These end with the prefetch, whenever the process resumes.
func TestPrefetch_ProcessStopped_EndsInTime(t *testing.T) {
	t.Parallel()
	server := servers.Single(t)
	redis := servers.Connect(t, single(server.Addr()))
	after := 0
	for _, stopped := range []time.Duration{100, 390, 400, 600} {
		stopped *= time.Millisecond
		t.Run(fmt.Sprint(stopped), func(t *testing.T) {
			l := setRate(t, redis, rratelimiter.Rate{Permits: 100_000_000, Interval: time.Minute})
			process := exec.Command(os.Args[0])
			process.Env = append(os.Environ(), memberEnv+"="+server.Addr())
			process.Stderr = os.Stderr
			stdout, err := process.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, process.Start())
			t.Cleanup(func() { // has no effect after Wait
				_ = process.Process.Kill()
				_ = process.Wait()
			})
			answers := json.NewDecoder(stdout)
			var warm bool
			require.NoError(t, answers.Decode(&warm))
			require.NoError(t, process.Process.Signal(syscall.SIGSTOP))
			stop := time.Now()
			_, err = l.Delete(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Until(stop.Add(stopped)))
			resumed := time.Now()
			require.NoError(t, process.Process.Signal(syscall.SIGCONT))

			var r report
			require.NoError(t, answers.Decode(&r))
			require.NoError(t, process.Wait())
			require.Contains(t, r.Error, "not initialized")
			var late time.Duration
			uses := 0
			for _, grant := range r.Grants {
				if grant.After(resumed) {
					uses++
					late = grant.Sub(stop)
				}
			}
			t.Logf("%d uses after it resumed, the last of them %v after it was stopped", uses, late)
			// The prefetch began before the process was stopped.
			require.LessOrEqual(t, late, memberPrefetch)
			after += uses
		})
	}
	require.Positive(t, after, "no process held a prefetch when it resumed")
}

// TestMain runs the tests, or in a process of its own a member.
func TestMain(m *testing.M) {
	addr := os.Getenv(memberEnv)
	if addr == "" {
		os.Exit(leaks.Main(m))
	}
	if err := member(addr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	name     = "{shop}:prefetched"
	rate     = 4000
	interval = time.Second
	prefetch = 50 * time.Millisecond

	settleTimeout = 60 * time.Second
)

// loadTime is the duration of a load.
var loadTime = env.Duration("PREFETCH_LOAD", 3*time.Second)

func single(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
}

// setRate sets the rate of a limiter, and returns it without prefetches.
func setRate(t *testing.T, redis rueidis.Client, r rratelimiter.Rate) *rratelimiter.Limiter {
	t.Helper()
	l := rratelimiter.New(redis).Limiter(name)
	require.NoError(t, l.SetRate(t.Context(), r))
	return l
}
