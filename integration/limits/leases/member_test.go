package leases_test

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// memberEnv makes this test binary a process of its own that takes permits: it holds the task.
const memberEnv = "LEASES_MEMBER"

// task is what such a process does: one caller after another, with a pause after so many grants and
// after each denial, until its end or its first error.
type task struct {
	Addr  string
	Lease time.Duration
	Begin time.Time
	End   time.Time
	Often int // grants before a pause; 0 for none
	Pause time.Duration
	Warm  int // grants from memory that it reports
}

// report is what it came to.
type report struct {
	Grants  []ledger.Grant
	Denials int64
	Error   string
}

// process is a member that runs.
type process struct {
	cmd     *exec.Cmd
	answers *json.Decoder
}

// startMember starts a process with a task, and returns once it is warm, or before its begin.
func startMember(t *testing.T, spec task) *process {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), memberEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { // where the test ends early; else it has ended
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	p := &process{cmd, json.NewDecoder(bufio.NewReader(stdout))}
	var leases bool
	require.NoError(t, p.answers.Decode(&leases))
	return p
}

// report waits for the end of the process.
func (p *process) report(t *testing.T) (r report) {
	t.Helper()
	require.NoError(t, p.answers.Decode(&r))
	require.NoError(t, p.cmd.Wait())
	return r
}

// member is the main function of such a process.
func member(spec string) error {
	var t task
	if err := json.Unmarshal([]byte(spec), &t); err != nil {
		return err
	}
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
