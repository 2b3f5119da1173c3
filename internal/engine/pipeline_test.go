package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// sending records how many names each pipeline is for.
type sending struct {
	rueidis.Client
	mu    sync.Mutex
	sizes []int
}

func (c *sending) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	c.mu.Lock()
	c.sizes = append(c.sizes, len(commands))
	c.mu.Unlock()
	return c.Client.DoMulti(ctx, commands...)
}

// askAll takes a permit of each of so many windows at the same time. The first window has one
// permit, the next one two, and so on. A Protocol, if it is not nil, replaces that of each window.
func askAll(ctx context.Context, g *Engine, names int, protocol func(*fake) Protocol) ([]Result, []error) {
	results, errs := make([]Result, names), make([]error, names)
	var callers sync.WaitGroup
	for i := range names {
		l := open(g, fmt.Sprint("limiter:", i), int64(i+1), time.Minute)
		if protocol != nil {
			l.Protocol = protocol(l)
		}
		callers.Go(func() { results[i], errs[i] = l.Try(ctx, Ask{Permits: 1, Detail: true}) })
	}
	callers.Wait()
	return results, errs
}

// withContexts runs a test with a context with which callers wait for their call, and with one with
// which they can leave it. A call takes 10 ms.
func withContexts(t *testing.T, test func(ctx context.Context, f *fixture)) {
	for name, cancellable := range map[string]bool{"without an end": false, "cancellable": true} {
		runWithServer(t, name, func(t *testing.T, f *fixture) {
			f.Latency.Store(int64(10 * time.Millisecond))
			ctx := t.Context()
			if !cancellable {
				ctx = context.WithoutCancel(ctx)
			}
			test(ctx, f)
		})
	}
}

// clustered is a client of a Redis Cluster.
type clustered struct{ rueidis.Client }

func (clustered) Mode() rueidis.ClientMode { return rueidis.ClientModeCluster }

// TestPipeline_ManyNames_ShareIt: each call has its own answer.
func TestPipeline_ManyNames_ShareIt(t *testing.T) {
	withContexts(t, func(ctx context.Context, f *fixture) {
		const names = 10 * redisx.MaxPipelined
		conn := &sending{Client: f.Conn}
		var reported atomic.Int64 // requests, with their calls
		observer := &Observer{RedisCall: func(_ context.Context, c Call) { reported.Add(int64(c.Requests)) }}
		g := New(Settings{Redis: conn, Observer: observer})
		results, errs := askAll(ctx, g, names, nil)
		assert.EqualValues(f, names, reported.Load())
		for i, result := range results {
			require.NoError(f, errs[i])
			want := Answer{Allowed: true, Limit: int64(i + 1), Remaining: int64(i), ResetAfter: time.Minute}
			assert.Equal(f, want, result.Answer)
		}
		sizes, inPipelines := slices.Clone(conn.sizes), 0
		for _, size := range sizes {
			inPipelines += size
		}
		assert.LessOrEqual(f, slices.Max(sizes), redisx.MaxPipelined)
		assert.Greater(f, inPipelines, names/2)
		assert.Less(f, len(sizes), inPipelines*4/5)

		// A lone call goes alone, also while others wait in their queues.
		waiting, cancel := context.WithCancel(f.Context())
		var callers sync.WaitGroup
		for i := range 2 * pipelined {
			l := open(g, fmt.Sprint("limiter:", i), int64(i+1), time.Minute)
			callers.Go(func() { assert.ErrorIs(f, redistest.Err(l.Wait(waiting, int64(i+1), time.Time{})), context.Canceled) })
		}
		time.Sleep(time.Second)
		f.RequireGranted(open(g, "limiter:100", 101, time.Minute), 1)
		assert.Len(f, conn.sizes, len(sizes))
		cancel()
		callers.Wait()

		conn = &sending{Client: f.Conn}
		assert.False(f, g.Cluster())
		g = New(Settings{Redis: clustered{conn}})
		assert.True(f, g.Cluster())
		_, errs = askAll(ctx, g, names, nil) // asks for the slots
		require.NoError(f, errors.Join(errs...))
		_, errs = askAll(ctx, g, names, nil)
		require.NoError(f, errs[names-1])
		assert.Greater(f, slices.Max(conn.sizes), 1)
	})
}

// twice is a window whose script is asked a second time. The first call grants nothing.
type twice struct{ *fake }

func (l twice) Arguments(b *Batch, now time.Time) {
	l.fake.Arguments(b, now)
	b.Args[operationArg] = "begin"
}

func (l twice) Answer(b *Batch, reply rueidis.RedisMessage) (again bool, err error) {
	if b.Args[operationArg] == "begin" {
		b.Args[operationArg] = "take"
		return true, nil
	}
	return l.fake.Answer(b, reply)
}

func TestPipeline_ScriptsNeedMoreCalls_AreRepeated(t *testing.T) {
	withContexts(t, func(ctx context.Context, f *fixture) {
		g := f.engine()
		results, errs := askAll(ctx, g, 2*redisx.MaxPipelined, func(l *fake) Protocol { return twice{l} })
		require.NoError(f, errors.Join(errs...))
		for i, result := range results {
			assert.True(f, result.Allowed)
			assert.EqualValues(f, i, result.Remaining, "after the second call")
		}
		assert.True(f, g.idle())
	})
}
