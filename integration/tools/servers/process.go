package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"github.com/rratelimiter/rratelimiter/integration/tools/logtail"
)

const host = "127.0.0.1"

// keptOutput is the number of bytes of a server's output that are kept.
const keptOutput = 32 << 10

// serverArgs returns all arguments of redis-server. The caller's come first, since a sentinel's
// begin with its configuration file.
func serverArgs(dir string, port int, args []string) []string {
	return append(slices.Clone(args), "--port", strconv.Itoa(port), "--bind", host, "--dir", dir, "--daemonize", "no")
}

// launch starts redis-server with args on the port, in the working directory dir. It does not wait
// for the first reply.
func launch(dir string, port int, args []string) (*process, error) {
	name := os.Getenv("REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("no %s: install it (apt-get install redis-server), or name one in REDIS_SERVER: %w",
			name, err)
	}
	p := &process{cmd: exec.Command(path, serverArgs(dir, port, args)...), output: logtail.Tail{Keep: keptOutput},
		done: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Stdout = &p.output
	p.cmd.Stderr = &p.output
	p.cmd.SysProcAttr = sysProcAttr()

	started := make(chan error)
	go func() {
		// On Linux the server gets a signal when the thread that started it ends, not only when the
		// process does. So it has a thread of its own, which exists until the server has ended.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		// Its exit code is not needed: it was killed, or its log has the reason.
		_ = p.cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// process is a run of a server. Its methods are safe for concurrent use.
type process struct {
	cmd    *exec.Cmd
	output logtail.Tail  // the end of it
	done   chan struct{} // closed when the server has ended
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the server at once and returns when it has ended. It has no effect on an ended server.
func (p *process) kill() error {
	err := p.signal(syscall.SIGKILL)
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	if err == nil {
		<-p.done
	}
	return err
}

// signal signals the process group of the server, with children that it forked.
func (p *process) signal(s syscall.Signal) error {
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
	}
	err := syscall.Kill(-p.pid(), s)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}
