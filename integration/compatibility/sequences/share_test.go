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

// share makes requests as callers of one Client do at one moment: each arrives while the calls of
// those before it are held back. It gives their replies, and how many of them went in each call.
func (r *run) share(ctx context.Context, t *testing.T, name string, deed []calls.Call) (replies []calls.Reply,
	batches []int, err error) {
	door := &door{Client: r.redis, arrived: make(chan *held, len(deed))}
	limiter := rratelimiter.New(door, r.id).Limiter(name)
	// The Client learns the type of the limiter here, so that no call is repeated with other keys.
	_, _ = limiter.AvailablePermits(ctx)
	door.shut.Store(true)
	side := calls.Go(limiter)
	replies, errs := make([]calls.Reply, len(deed)), make([]error, len(deed))
	done := make(chan struct{}, len(deed))
	for i, call := range deed {
		ctx := ctx
		if r.chance(50) {
			ctx = context.Background() // one that cannot end
		}
		go caller(func() {
			replies[i], errs[i] = side.Do(ctx, call)
			done <- struct{}{}
		})
		for began := time.Now(); !r.settled(i + 1); runtime.Gosched() {
			require.Less(t, time.Since(began), 10*time.Second, "caller %d neither waits for others nor for Redis", i)
		}
	}
	// The calls go on one by one, in the order in which they left.
	for answered := 0; answered < len(deed); {
		select {
		case h := <-door.arrived:
			batches = append(batches, h.requests)
			close(h.pass)
			<-h.done
		case <-done:
			answered++
		}
	}
	r.sharers += len(deed)
	r.sharedCalls += len(batches)
	return replies, batches, errors.Join(errs...)
}

// caller marks a goroutine as that of a caller, for settled.
//
//go:noinline
func caller(call func()) { call() }

// settled reports whether so many callers wait, in a shared call or for its reply, and nothing of
// the library is running.
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

// door holds the script calls of a client back until they are let pass, once it is shut.
type door struct {
	rueidis.Client
	shut    atomic.Bool
	arrived chan *held
}

type held struct {
	requests int // that the call carries
	pass     chan struct{}
	done     chan struct{}
}

func (d *door) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	words := command.Commands()
	if words[0] != "EVALSHA" || !d.shut.Load() {
		return d.Client.Do(ctx, command)
	}
	h := &held{requests: requests(words), pass: make(chan struct{}), done: make(chan struct{})}
	defer close(h.done)
	d.arrived <- h
	<-h.pass
	return d.Client.Do(ctx, command)
}

// requests counts the requests of an acquire script's call. Its eighth argument lists them as
// '1*200 3*1', and is empty for one.
func requests(words []string) (n int) {
	const runs = 7
	keys, err := strconv.Atoi(words[2])
	if err != nil {
		panic("a call that this test does not know: " + words[2])
	}
	args := words[3+keys:]
	if len(args) <= runs || args[runs] == "" {
		return 1
	}
	for run := range strings.FieldsSeq(args[runs]) {
		_, times, _ := strings.Cut(run, "*")
		k, err := strconv.Atoi(times)
		if err != nil {
			panic("runs of requests that this test does not know: " + args[runs])
		}
		n += k
	}
	return n
}
