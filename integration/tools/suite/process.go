package suite

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// taskEnv has the task of a process that Start started.
const taskEnv = "RRATELIMITER_TASK"

// Processes runs the tests of a package, or in a process of Start its task.
func Processes[Task any](m *testing.M, run func(Task) error) {
	text := os.Getenv(taskEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	var task Task
	err := json.Unmarshal([]byte(text), &task)
	if err == nil {
		err = run(task)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Process is the test binary in a process of its own.
type Process struct {
	*exec.Cmd
	output *json.Decoder
}

// Start starts the test binary with a task. The process ends with the test.
func Start(t testing.TB, task any) *Process {
	t.Helper()
	text, err := json.Marshal(task)
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
	return &Process{cmd, json.NewDecoder(stdout)}
}

// Decode reads the next JSON value that the process prints.
func (p *Process) Decode(v any) error { return p.output.Decode(v) }

// Report reads the last JSON value that the process prints, and waits for its end.
func (p *Process) Report(v any) error {
	if err := p.Decode(v); err != nil {
		return fmt.Errorf("process %d: %w: %w", p.Process.Pid, err, p.Wait())
	}
	return p.Wait()
}
