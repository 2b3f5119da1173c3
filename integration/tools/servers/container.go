package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/rratelimiter/rratelimiter/integration/tools/logtail"
)

// containers starts containers through the program of package container, which it names. A program
// of its own keeps Docker's client, its connections and its goroutines out of the tests, which
// count such things. It also ends a container whose test was killed.
type containers string

func (c containers) launch(dir string, port int, args []string) (instance, error) {
	run := &containerRun{output: logtail.Tail{Keep: keptOutput}, done: make(chan struct{})}
	run.cmd = exec.Command(string(c), append([]string{dir}, serverArgs(dir, port, args)...)...)
	run.cmd.Stderr = &run.output
	// A group of its own: Ctrl-C is for the test, whose end then ends the container.
	run.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	commands, err := run.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	answers, err := run.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := run.cmd.Start(); err != nil {
		return nil, fmt.Errorf("no program %s, named in REDIS_CONTAINER, which make test-docker builds: %w", c, err)
	}
	run.commands, run.answers = commands, bufio.NewReader(answers)

	started, err := run.answers.ReadString('\n')
	if err == nil {
		run.serverPID, err = strconv.Atoi(strings.TrimSpace(started))
	}
	if err != nil {
		_ = commands.Close()
		_ = run.cmd.Wait()
		return nil, fmt.Errorf("no container: %s", strings.TrimSpace(run.output.String()))
	}
	go func() {
		if err := run.cmd.Wait(); err != nil {
			run.failure = fmt.Errorf("the container of process %d: %s", run.serverPID, run.output.String())
		}
		close(run.done)
	}()
	// A server that has ended already has no process id, and must not be taken for one whose id is
	// merely unknown.
	if run.serverPID == 0 {
		<-run.done
	}
	return run, nil
}

type containerRun struct {
	cmd       *exec.Cmd
	commands  io.WriteCloser
	output    logtail.Tail
	serverPID int
	failure   error // set before done is closed
	done      chan struct{}

	mu      sync.Mutex // one command at a time
	answers *bufio.Reader
}

func (c *containerRun) pid() int                { return c.serverPID }
func (c *containerRun) log() string             { return c.output.String() }
func (c *containerRun) exited() <-chan struct{} { return c.done }
func (c *containerRun) pause() error            { return c.command("pause") }
func (c *containerRun) resume() error           { return c.command("resume") }

func (c *containerRun) kill() error {
	// Closing a second time, or after the program has ended, is as good.
	_ = c.commands.Close()
	<-c.done
	return c.failure
}

func (c *containerRun) command(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.done:
		return os.ErrProcessDone
	default:
	}
	if _, err := fmt.Fprintln(c.commands, name); err != nil {
		return fmt.Errorf("%w: %w", os.ErrProcessDone, err)
	}
	answer, err := c.answers.ReadString('\n')
	if err != nil {
		return fmt.Errorf("%w: %w", os.ErrProcessDone, err)
	}
	if answer = strings.TrimSpace(answer); answer == "ok" {
		return nil
	}
	if text, err := strconv.Unquote(answer); err == nil {
		answer = text
	}
	return errors.New(answer)
}
