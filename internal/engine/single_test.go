package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// withSingles runs a test while calls for many other limiters are in flight, so that a lone caller of a
// limiter gets a single. Calls take 10 ms.
func withSingles(t *testing.T, s Settings, test func(t *testing.T, f *fixture, g *Engine)) {
	withServer(t, func(t *testing.T, f *fixture) {
		f.Latency.Store(int64(10 * time.Millisecond))
		s.Redis = f.Conn
		g := New(s)
		g.calling.Add(pipelined + 1)
		defer g.calling.Add(-pipelined - 1)
		test(t, f, g)
	})
}

// TestSingle_OtherCallersOfItsLimiter_ShareACall: only the first caller has a call of its own.
func TestSingle_OtherCallersOfItsLimiter_ShareACall(t *testing.T) {
	withSingles(t, Settings{}, func(t *testing.T, f *fixture, g *Engine) {
		const callers = 50
		l := open(g, "limiter", callers-1, time.Minute)
		answers, errs := redistest.Crowd(callers, func(int) (bool, error) { return l.TryAcquire(t.Context(), 1) })
		require.NoError(t, errors.Join(errs...))
		assert.Equal(t, callers-1, slices.Index(answers, false))
		assert.LessOrEqual(t, f.Scripts.Load(), int64(1+fastCalls+1))
		assert.Zero(t, g.registry.live.Load())
	})
}

// TestSingle_CallerLeaves_PermitReturns: and its call is reported. A script that needs another call does
// not get it.
func TestSingle_CallerLeaves_PermitReturns(t *testing.T) {
	for more, failed := range []string{"<nil>", "limiter: context canceled"} {
		var calls atomic.Int64
		observer := &Observer{RedisCall: func(_ context.Context, c Call) {
			calls.Add(1)
			assert.Equal(t, failed, fmt.Sprint(c.Err))
		}}
		withSingles(t, Settings{Observer: observer}, func(t *testing.T, f *fixture, g *Engine) {
			l := open(g, "limiter", 5, time.Minute)
			l.Protocol = paged{l, more}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			assert.ErrorIs(t, redistest.Err(l.TryAcquire(ctx, 1)), context.DeadlineExceeded)
			time.Sleep(10 * time.Millisecond)
			assert.EqualValues(t, 4+more, f.free(l), "the call was sent")
			time.Sleep(time.Second)
			assert.EqualValues(t, 5, f.free(l))
			assert.EqualValues(t, 1, calls.Load())
			assert.EqualValues(t, pipelined+1, g.calling.Load())
		})
	}
}

// TestSingle_ScriptNeedsMoreCalls_Continues: it does not begin again.
func TestSingle_ScriptNeedsMoreCalls_Continues(t *testing.T) {
	withSingles(t, Settings{}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 5, time.Minute)
		l.Protocol = paged{l, 3}
		before := f.Scripts.Load()
		require.NoError(t, redistest.Err(l.TryAcquire(t.Context(), 1)))
		assert.EqualValues(t, 4, f.Scripts.Load()-before)
	})
}

// TestSingle_ReusedState_KeepsNothing: the next call of another limiter has its own answer.
func TestSingle_ReusedState_KeepsNothing(t *testing.T) {
	withSingles(t, Settings{}, func(t *testing.T, f *fixture, g *Engine) {
		for i := range 20 {
			l := open(g, fmt.Sprint("limiter:", i), 3, time.Minute)
			for left := 2; left >= -1; left-- {
				result := redistest.Result(t, l.Take, 1)
				assert.Equal(t, left >= 0, result.Allowed)
				assert.EqualValues(t, max(0, left), result.Remaining)
			}
			assert.Zero(t, redistest.Result(t, l.TakeUpTo, 2).Granted)
			assert.ErrorIs(t, redistest.Err(l.TryAcquire(t.Context(), 4)), aboveLimit{4, 3})
			f.fail("OOM")
			assert.ErrorContains(t, redistest.Err(l.TryAcquire(t.Context(), 1)), l.ID+": OOM")
			f.fail("")
			f.RequireDenied(l, 1)
		}
	})
}

// TestSingle_ClockPanics_NothingIsLeft: the next call is a single again.
func TestSingle_ClockPanics_NothingIsLeft(t *testing.T) {
	panics := true
	now := func() time.Time {
		if panics {
			panic("the program's clock")
		}
		return time.Now()
	}
	withSingles(t, Settings{Now: now}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 5, time.Minute)
		assert.Panics(t, func() { _, _ = l.TryAcquire(context.Background(), 1) })
		panics = false
		assert.EqualValues(t, pipelined+1, g.calling.Load())
		assert.Zero(t, g.registry.busy.of(l.ID).Load())
		f.RequireGranted(l, 1)
	})
}

// TestSingle_SlotMoves_CallIsRepeated: a proxy may hide a cluster. The next single is not dated by the
// call that failed.
func TestSingle_SlotMoves_CallIsRepeated(t *testing.T) {
	var took atomic.Int64
	observer := &Observer{RedisCall: func(_ context.Context, c Call) { took.Store(int64(c.Took)) }}
	withSingles(t, Settings{Observer: observer}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 5, time.Minute)
		f.moveSlot()
		f.RequireGranted(l, 1)
		assert.EqualValues(t, 4, f.free(l))
		f.RequireGranted(l, 1)
		assert.Equal(t, 10*time.Millisecond, time.Duration(took.Load()))
	})
}

// TestSingle_DenialCache_RemembersItsDenial: a grant ends it, and so does a change during its call.
func TestSingle_DenialCache_RemembersItsDenial(t *testing.T) {
	withSingles(t, Settings{Denials: time.Hour}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 2, time.Minute)
		from := func() Source {
			result, err := l.Try(t.Context(), Ask{Permits: 2})
			require.NoError(t, err)
			assert.False(t, result.Allowed)
			return result.From
		}
		f.RequireGranted(l, 1)
		assert.Equal(t, FromRedis, from())
		assert.Equal(t, FromMemory, from())
		f.RequireGranted(l, 1)
		time.AfterFunc(5*time.Millisecond, func() { g.changed(l.ID) })
		assert.Equal(t, FromRedis, from(), "after a grant")
		assert.Equal(t, FromRedis, from(), "after a change")
		assert.Equal(t, FromMemory, from())
	})
}

// TestSingle_Lease_IsBroughtByASharedCall: a single has none.
func TestSingle_Lease_IsBroughtByASharedCall(t *testing.T) {
	withSingles(t, Settings{Lease: time.Second}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 1000, time.Minute)
		for range 20 {
			f.RequireGranted(l, 1)
		}
		assert.Equal(t, FromLease, redistest.Result(t, l.Take, 1).From)
		require.NoError(t, g.Flush(t.Context()))
	})
}

func TestReceipt_EachWay_RefundsItsGrant(t *testing.T) {
	for _, way := range ways {
		for kind, others := range map[string]int64{"shared call": 0, "own call": pipelined + 1, "lease": 0} {
			runWithServer(t, way.name+", "+kind, func(t *testing.T, f *fixture) {
				leased, s := kind == "lease", Settings{}
				if leased {
					s.Lease = time.Second
				}
				l := f.open(s, 100, time.Minute)
				l.Engine.calling.Add(others)
				f.CountGranted(l, 20, 0)
				synctest.Wait() // for the next lease
				slot := receipt.Collect(t.Context())
				require.NoError(t, way.call(slot, l, 1))
				require.NoError(t, slot.Of(1).Refund(t.Context(), 1))
				assert.Equal(t, leased, slot.FromMemory())
				require.NoError(t, l.Engine.Flush(t.Context()))
				assert.EqualValues(t, 80, f.free(l))
			})
		}
	}
}

// sending records how many calls each pipeline has.
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

// askAll takes a permit of each of so many limiters at the same time. The first one has one permit, the
// next one two, and so on.
func askAll(ctx context.Context, g *Engine, names int) ([]Result, []error) {
	results, errs := make([]Result, names), make([]error, names)
	var callers sync.WaitGroup
	for i := range names {
		l := open(g, fmt.Sprint("limiter:", i), int64(i+1), time.Minute)
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
		results, errs := askAll(ctx, g, names)
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
			callers.Go(func() { assert.ErrorIs(f, l.Acquire(waiting, int64(i+1)), context.Canceled) })
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
		_, errs = askAll(ctx, g, names) // asks for the slots
		require.NoError(f, errors.Join(errs...))
		_, errs = askAll(ctx, g, names)
		require.NoError(f, errs[names-1])
		assert.Greater(f, slices.Max(conn.sizes), 1)
	})
}
