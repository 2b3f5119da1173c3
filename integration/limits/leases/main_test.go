// Package leases_test runs callers with leases, in several Clients and processes, and Redisson on
// one limiter. It checks that the limiter keeps its rate: without faults, while Redis fails, and
// while a process with a lease is stopped or killed.
//
// LEASE_LOAD is the duration of each load, by default 3s.
package leases_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
)

// TestMain runs the tests, or in a process of startMember its task.
func TestMain(m *testing.M) {
	text := os.Getenv(taskEnv)
	if text == "" {
		os.Exit(leaks.Main(m))
	}
	var t task
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = member(t)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	name     = "{shop}:leased"
	rate     = 4000
	interval = time.Second
	lease    = 50 * time.Millisecond

	settleTimeout = 60 * time.Second
)

// loadTime is the duration of a load.
var loadTime = env.Duration("LEASE_LOAD", 3*time.Second)

func single(addr string) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
}

// setRate sets the rate of a limiter, and returns it without leases.
func setRate(t *testing.T, redis rueidis.Client, r rratelimiter.Rate) *rratelimiter.Limiter {
	t.Helper()
	l := rratelimiter.New(redis).Limiter(name)
	require.NoError(t, l.SetRate(t.Context(), r))
	return l
}

// taskEnv has the task of a process.
const taskEnv = "LEASE_TASK"

// task is the task of a process: one call after another, with a pause after some grants and after
// each denial, until End or the first error.
type task struct {
	Addr  string
	Lease time.Duration
	End   time.Time
	Often int // grants before a pause
	Pause time.Duration
	Warm  int64 // grants from leases, after which it writes a line
}

// report has its results.
type report struct {
	Grants []ledger.Grant
	Error  string
}

// process is the test binary in a process of its own.
type process struct {
	*exec.Cmd
	output *json.Decoder
}

// startMember starts a process with a task, which ends with the test. It returns when the process
// holds a lease.
func startMember(t *testing.T, spec task) *process {
	t.Helper()
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), taskEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { // has no effect after Wait
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p := &process{cmd, json.NewDecoder(stdout)}
	var leases bool
	require.NoError(t, p.output.Decode(&leases))
	return p
}

// report waits for the end of a process.
func (p *process) report(t *testing.T) (r report) {
	t.Helper()
	require.NoError(t, p.output.Decode(&r))
	require.NoError(t, p.Wait())
	return r
}

// member runs the task of a process.
func member(t task) error {
	redis, err := rueidis.NewClient(single(t.Addr))
	if err != nil {
		return err
	}
	defer redis.Close()
	var leased atomic.Int64
	limiter := rratelimiter.New(redis, rratelimiter.WithLease(t.Lease), rratelimiter.WithObserver(countLeased(&leased))).
		Limiter(name)
	answers := json.NewEncoder(os.Stdout)
	var r report
	for warm := false; time.Now().Before(t.End); {
		start := time.Now()
		granted, err := limiter.TryAcquire(context.Background(), 1)
		end := time.Now()
		if err != nil {
			r.Error = err.Error()
			break
		}
		if !granted {
			time.Sleep(t.Pause)
			continue
		}
		r.Grants = append(r.Grants, ledger.Grant{Start: start, End: end, Permits: 1})
		if leased.Load() >= t.Warm && !warm {
			warm = true
			if err := answers.Encode(true); err != nil {
				return err
			}
		}
		if len(r.Grants)%t.Often == 0 {
			time.Sleep(t.Pause)
		}
	}
	return answers.Encode(r)
}
