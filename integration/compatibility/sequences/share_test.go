package sequences_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/calls"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
)

// share makes simultaneous requests of one Client: each arrives while the gate holds earlier calls.
// It returns the replies, and the number of requests of each call.
func (r *run) share(ctx context.Context, t *testing.T, name string, requests []calls.Call) (replies []calls.Reply,
	batches []int, err error) {
	gate := &gate{Client: r.redis, arrived: make(chan *heldCall, len(requests))}
	limiter := rratelimiter.New(gate, r.id).Limiter(name)
	// The Client reads the type of the limiter here, so that it repeats no call with other keys.
	_, _ = limiter.AvailablePermits(ctx)
	gate.closed.Store(true)
	library := calls.Go(limiter)
	replies, errs := make([]calls.Reply, len(requests)), make([]error, len(requests))
	done := make(chan struct{}, len(requests))
	for i, call := range requests {
		ctx := ctx
		if r.chance(50) {
			ctx = context.Background() // cannot end
		}
		go caller(func() {
			replies[i], errs[i] = library.Do(ctx, call)
			done <- struct{}{}
		})
		for began := time.Now(); !r.settled(i + 1); runtime.Gosched() {
			require.Less(t, time.Since(began), 10*time.Second, "caller %d waits neither in a batch nor for Redis", i)
		}
	}
	// The gate releases calls in the order of their arrival.
	for answered := 0; answered < len(requests); {
		select {
		case h := <-gate.arrived:
			batches = append(batches, h.requests)
			close(h.release)
			<-h.done
		case <-done:
			answered++
		}
	}
	r.sharedRequests += len(requests)
	r.sharedCalls += len(batches)
	return replies, batches, errors.Join(errs...)
}

// caller marks a goroutine as that of a caller, for settled.
//
//go:noinline
func caller(call func()) { call() }

// settled reports whether all callers wait in a batch or for its reply, and no goroutine of the
// library runs.
func (r *run) settled(callers int) bool {
	if r.stacks == nil {
		r.stacks = make([]byte, 1<<20)
	}
	all := r.stacks[:runtime.Stack(r.stacks, true)]
	for stack := range bytes.SplitSeq(all, []byte("\n\n")) {
		called := bytes.Contains(stack, []byte("sequences_test.caller("))
		if !called && !slices.ContainsFunc(leaks.Library,
			func(name string) bool { return bytes.Contains(stack, []byte("\n"+name)) }) {
			continue
		}
		state, _, _ := bytes.Cut(stack, []byte("]"))
		_, state, _ = bytes.Cut(state, []byte("["))
		if !bytes.HasPrefix(state, []byte("chan receive")) && !bytes.HasPrefix(state, []byte("select")) {
			return false
		}
		if called {
			callers--
		}
	}
	return callers == 0
}

// gate holds the script calls of a client, once it is closed, until their release.
type gate struct {
	rueidis.Client
	closed  atomic.Bool
	arrived chan *heldCall
}

type heldCall struct {
	requests int // that the call carries
	release  chan struct{}
	done     chan struct{}
}

func (d *gate) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	words := command.Commands()
	if words[0] != "EVALSHA" || !d.closed.Load() {
		return d.Client.Do(ctx, command)
	}
	h := &heldCall{requests: requests(words), release: make(chan struct{}), done: make(chan struct{})}
	defer close(h.done)
	d.arrived <- h
	<-h.release
	return d.Client.Do(ctx, command)
}

// requests counts the requests of an acquire script's call. Its eighth argument lists them as
// '1*200 3*1', and is empty for one.
func requests(words []string) (n int) {
	const runs = 7
	keys, err := strconv.Atoi(words[2])
	if err != nil {
		panic("unknown arguments of a call: " + words[2])
	}
	args := words[3+keys:]
	if len(args) <= runs || args[runs] == "" {
		return 1
	}
	for run := range strings.FieldsSeq(args[runs]) {
		_, times, _ := strings.Cut(run, "*")
		k, err := strconv.Atoi(times)
		if err != nil {
			panic("unknown requests of a call: " + args[runs])
		}
		n += k
	}
	return n
}
