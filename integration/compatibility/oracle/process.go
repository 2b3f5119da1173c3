package oracle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter/integration/tools/logtail"
)

// process is a Java process with instances of one release. It ends with this process, or if it
// crashes.
type process struct {
	cmd    *exec.Cmd
	stderr logtail.Tail
	ended  chan struct{} // closed when it has ended and failed is set
	failed error
	lastID atomic.Int64

	mu      sync.Mutex
	stdin   io.WriteCloser
	pending map[int64]chan<- answer
}

var (
	starting  sync.Mutex
	processes = make(map[string]*process) // by release and flags of the JVM
)

// processOf returns the process of a release, which it starts if there is none.
func processOf(ctx context.Context, version string, flags []string) (*process, error) {
	starting.Lock()
	defer starting.Unlock()
	key := version + strings.Join(flags, " ")
	if p := processes[key]; p != nil {
		select {
		case <-p.ended:
		default:
			return p, nil
		}
	}
	classpath, err := build(ctx, version)
	if err != nil {
		return nil, err
	}
	command, err := java()
	if err != nil {
		return nil, err
	}
	args := append(slices.Clone(flags), "-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", classpath, mainClass)
	p := &process{cmd: exec.Command(command, args...), stderr: logtail.Tail{Keep: 64 << 10},
		ended: make(chan struct{}), pending: make(map[int64]chan<- answer)}
	p.cmd.Stderr = &p.stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", toInstall, err)
	}
	go p.read(stdout)
	processes[key] = p
	return p, nil
}

// call sends a request and returns its answer.
func (p *process) call(ctx context.Context, q request) (answer, error) {
	got := make(chan answer, 1)
	q.ID = p.lastID.Add(1)
	line, err := json.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	p.mu.Lock()
	p.pending[q.ID] = got
	_, _ = p.stdin.Write(append(line, '\n')) // it fails if the process has ended
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.pending, q.ID)
		p.mu.Unlock()
	}()
	select {
	case a := <-got:
		return a, nil
	case <-ctx.Done():
		return answer{}, ctx.Err()
	case <-p.ended:
		return answer{}, p.failed
	}
}

// read passes each answer to its call, until the process ends.
func (p *process) read(stdout io.Reader) {
	var err error
	for answers := json.NewDecoder(stdout); err == nil; {
		var a answer
		if err = answers.Decode(&a); err == nil {
			p.mu.Lock()
			if waiting := p.pending[a.ID]; waiting != nil {
				waiting <- a
			}
			p.mu.Unlock()
		}
	}
	// A process that writes something else is useless. Kill has no effect if it has ended.
	_ = p.cmd.Process.Kill()
	p.failed = fmt.Errorf("%w: %w", ErrEnded, errors.Join(err, p.cmd.Wait()))
	close(p.ended)
}
