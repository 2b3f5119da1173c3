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
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/suite"
)

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
