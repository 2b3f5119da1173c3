// Package leases_test runs callers with leases, in several Clients and processes, and Redisson on
// one limiter. It checks that the limiter keeps its rate: without faults, while Redis fails, and
// while a process with a lease is stopped or killed.
//
// LEASE_LOAD is the duration of each load, by default 3s.
package leases_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/suite"
)

func TestMain(m *testing.M) { suite.Processes(m, member) }

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

// balance returns the sum of the limiter's value and grants in Redis, read atomically.
func balance(ctx context.Context, redis rueidis.Client) (int64, error) {
	const script = `
local sum = tonumber(redis.call('GET', KEYS[1]))
local grants = redis.call('ZRANGE', KEYS[2], 0, -1)
for i = 1, #grants do
  local a, b, c, d = string.byte(grants[i], -4, -1)
  sum = sum + a + b * 256 + c * 65536 + d * 16777216
end
return sum`
	return redis.Do(ctx, redis.B().Eval().Script(script).Numkeys(2).Key(name+":value",
		name+":permits").Build()).AsInt64()
}

// task is the task of a process: one call after another, with a pause after some grants and after
// each denial, until End or the first error.
type task struct {
	Addr  string
	Lease time.Duration
	Begin time.Time
	End   time.Time
	Often int // grants before a pause; 0 for none
	Pause time.Duration
	Warm  int // grants from memory that it reports
}

// report has its results.
type report struct {
	Grants  []ledger.Grant
	Denials int64
	Error   string
}

// startMember starts a process with a task. It returns at once if the task has a Begin, otherwise
// when the process holds a lease.
func startMember(t *testing.T, spec task) *suite.Process {
	t.Helper()
	p := suite.Start(t, spec)
	var leases bool
	require.NoError(t, p.Decode(&leases))
	return p
}

// reportOf waits for the end of a process.
func reportOf(t *testing.T, p *suite.Process) (r report) {
	t.Helper()
	require.NoError(t, p.Report(&r))
	return r
}

// member runs the task of a process.
func member(t task) error {
	redis, err := rueidis.NewClient(single(t.Addr))
	if err != nil {
		return err
	}
	defer redis.Close()
	limiter := rratelimiter.New(redis, rratelimiter.WithLease(t.Lease)).Limiter(name)
	answers := json.NewEncoder(os.Stdout)
	reported := !t.Begin.IsZero()
	if reported {
		if err := answers.Encode(false); err != nil {
			return err
		}
		time.Sleep(time.Until(t.Begin))
	}
	var r report
	for leased := 0; time.Now().Before(t.End); {
		start := time.Now()
		granted, err := limiter.TryAcquire(context.Background(), 1)
		end := time.Now()
		if err != nil {
			r.Error = err.Error()
			break
		}
		if !granted {
			r.Denials++
			time.Sleep(max(t.Pause, 100*time.Microsecond))
			continue
		}
		r.Grants = append(r.Grants, ledger.Grant{Start: start, End: end, Permits: 1})
		if end.Sub(start) < fromMemory {
			leased++
		}
		if leased > t.Warm && !reported {
			reported = true
			if err := answers.Encode(true); err != nil {
				return err
			}
		}
		if t.Often > 0 && len(r.Grants)%t.Often == 0 {
			time.Sleep(t.Pause)
		}
	}
	return answers.Encode(r)
}
