// Package oracle runs real Redisson, the Java library, as the reference of tests.
//
// A Redisson is one instance of a release in its own Java process, with its own id, connected to
// Redis. Its Limiter has the calls of Redisson's RRateLimiter under their Go names, and returns
// their results unchanged. A call that a release lacks fails with ErrUnsupported.
//
// The Java program is in the folder integration/tools/redisson. Maven builds it for each release
// when it is first used.
package oracle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter/integration/tools/logtail"
)

// ErrUnsupported is returned for a call that the release of Redisson lacks.
var ErrUnsupported = errors.New("this release of Redisson has no such call")

// ErrEnded is returned for a call whose Java process ended before its reply.
var ErrEnded = errors.New("the Java process has ended")

// Error is the innermost cause of an exception that Redisson threw.
type Error struct {
	Message string
	Class   string // of the exception, as org.redisson.client.RedisException
}

func (e *Error) Error() string { return e.Class + ": " + e.Message }

// Redisson is one running instance. Its methods are safe for concurrent use.
type Redisson struct {
	version string
	id      string
	cmd     *exec.Cmd
	stderr  logtail.Tail
	ended   chan struct{} // closed when the process has ended and failed is set
	closing sync.Once

	write sync.Mutex
	stdin io.WriteCloser

	mu      sync.Mutex
	lastID  int64
	pending map[int64]chan<- answer
	failed  error // the error of further calls
}

// Start starts the release of Redisson for the test, which fails if that is impossible. Redisson
// ends with the test. If the test fails, it logs Redisson's log.
func Start(t testing.TB, version string, target Target, opts ...Option) *Redisson {
	t.Helper()
	// A first build may download everything.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	r, err := Open(ctx, version, target, opts...)
	if err != nil {
		t.Fatalf("oracle: %v", err)
	}
	t.Cleanup(func() {
		r.Close()
		if log := r.Log(); t.Failed() && log != "" {
			t.Logf("log of Redisson %s, id %s:\n%s", version, r.ID(), log)
		}
	})
	return r
}

// Open is Start without a test: the caller must Close the result. ctx bounds the build and the
// start.
func Open(ctx context.Context, version string, target Target, opts ...Option) (*Redisson, error) {
	classpath, err := build(ctx, version)
	if err != nil {
		return nil, err
	}
	command, err := java()
	if err != nil {
		return nil, err
	}
	s := settings{jvm: []string{"-XX:TieredStopAtLevel=1"}, args: target.args[:len(target.args):len(target.args)]}
	for _, opt := range opts {
		opt(&s)
	}
	jvm := []string{"-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath,
		mainClass}
	args := slices.Concat(s.jvm, jvm, s.args)
	r := &Redisson{
		stderr:  logtail.Tail{Keep: 64 << 10},
		version: version,
		cmd:     exec.Command(command, args...),
		ended:   make(chan struct{}),
		pending: make(map[int64]chan<- answer),
	}
	r.cmd.Stderr = &r.stderr
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", toInstall, err)
	}
	ready := make(chan answer, 1)
	go r.read(stdout, ready)

	select {
	case first := <-ready:
		if first.Version != version {
			r.Kill()
			return nil, fmt.Errorf("want Redisson %s, got %s", version, first.Version)
		}
		r.id = first.RedissonID
		return r, nil
	case <-r.ended:
		return nil, fmt.Errorf("redisson %s did not start: %w\n%s", version, r.failed, r.Log())
	case <-ctx.Done():
		r.Kill()
		return nil, fmt.Errorf("redisson %s did not start: %w\n%s", version, ctx.Err(), r.Log())
	}
}

// ID is the Redisson instance's id, by which PER_CLIENT limiters distinguish clients.
func (r *Redisson) ID() string { return r.id }

// Version returns the release of Redisson.
func (r *Redisson) Version() string { return r.version }

// Log returns the last warnings and errors of Redisson.
func (r *Redisson) Log() string { return r.stderr.String() }

// Limiter returns the limiter of a name. It makes no call.
func (r *Redisson) Limiter(name string) *Limiter { return &Limiter{r: r, name: name} }

// Close shuts Redisson down and ends its process. Calls under way fail with ErrEnded. If Redisson
// cannot shut down in time, because its Redis hangs, Close kills it.
func (r *Redisson) Close() {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r.closing.Do(func() {
		// The process must end after any reply.
		_ = r.call(ctx, request{Call: "close"}, nil)
		select {
		case <-r.ended:
		case <-ctx.Done():
			r.Kill()
		}
	})
	<-r.ended
}

// Kill ends the process at once, as a crash does.
func (r *Redisson) Kill() {
	// It fails only if the process has ended before.
	_ = r.cmd.Process.Kill()
	<-r.ended
}

// call sends the request and decodes its result, which may be nil. If ctx ends first, call returns
// its error, and the call continues in Java.
func (r *Redisson) call(ctx context.Context, q request, result any) error {
	got := make(chan answer, 1)
	r.mu.Lock()
	if r.failed != nil {
		r.mu.Unlock()
		return r.failed
	}
	r.lastID++
	q.ID = r.lastID
	r.pending[q.ID] = got
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.pending, q.ID)
		r.mu.Unlock()
	}()

	line, err := json.Marshal(q)
	if err != nil {
		return err
	}
	r.write.Lock()
	_, err = r.stdin.Write(append(line, '\n'))
	r.write.Unlock()
	if err != nil {
		return fmt.Errorf("redisson %s, %s: %w: %w", r.version, q.Call, ErrEnded, err)
	}

	select {
	case a := <-got:
		return r.decode(a, result)
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ended:
	}
	// The reply may have come right before the end.
	select {
	case a := <-got:
		return r.decode(a, result)
	default:
		return r.failed
	}
}
