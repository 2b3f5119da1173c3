// Package oracle runs real Redisson, the Java library, as the reference of tests.
//
// A Redisson is one instance of a release with its own id, connected to Redis. The instances of a
// release share a Java process. A Limiter has the calls of Redisson's RRateLimiter under their Go
// names, and returns their results unchanged. A call that a release lacks fails with ErrUnsupported.
//
// The Java program is in the folder integration/tools/redisson. Maven builds it for each release
// when it is first used.
package oracle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
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
	process *process
	number  int64 // of the instance in its process
	version string
	id      string
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
		if log := r.process.stderr.String(); t.Failed() && log != "" {
			t.Logf("log of Redisson %s, id %s:\n%s", version, r.ID(), log)
		}
	})
	return r
}

// Open is Start without a test: the caller must Close the result. ctx bounds the build and the
// start.
func Open(ctx context.Context, version string, target Target, opts ...Option) (*Redisson, error) {
	config, jvm := target.config(opts)
	text, err := json.Marshal(config) // which is YAML, too
	if err != nil {
		return nil, err
	}
	p, err := processOf(ctx, version, jvm)
	if err != nil {
		return nil, err
	}
	r := &Redisson{process: p, number: p.lastID.Add(1), version: version}
	var opened string
	if err := r.call(ctx, request{Call: "open", Config: string(text)}, &opened); err != nil {
		return nil, fmt.Errorf("it did not start: %w\n%s", err, p.stderr.String())
	}
	got, id, _ := strings.Cut(opened, " ")
	if got != version {
		return nil, fmt.Errorf("want Redisson %s, got %s", version, got)
	}
	r.id = id
	return r, nil
}

// ID is the Redisson instance's id, by which PER_CLIENT limiters distinguish clients.
func (r *Redisson) ID() string { return r.id }

// Version returns the release of Redisson.
func (r *Redisson) Version() string { return r.version }

// Limiter returns the limiter of a name. It makes no call.
func (r *Redisson) Limiter(name string) *Limiter { return &Limiter{r: r, name: name} }

// Close shuts the instance down, as far as its Redis lets it within some seconds.
func (r *Redisson) Close() {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	_ = r.call(ctx, request{Call: "close"}, nil)
}

// call sends the request and decodes its result, which may be nil. If ctx ends first, call returns
// its error, and the call continues in Java.
func (r *Redisson) call(ctx context.Context, q request, result any) error {
	q.Redisson = r.number
	a, err := r.process.call(ctx, q)
	switch {
	case err != nil:
		return fmt.Errorf("redisson %s, %s: %w", r.version, q.Call, err)
	case a.Unsupported != nil:
		return fmt.Errorf("redisson %s, %s: %w", r.version, *a.Unsupported, ErrUnsupported)
	case a.Error != nil:
		return &Error{Message: *a.Error, Class: a.Class}
	case result == nil || a.Result == nil:
		return nil
	}
	return json.Unmarshal(a.Result, result)
}
