package engine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func openPaged(g *Engine, name string, more int) *fake {
	l := open(g, name, 1000, time.Hour)
	l.Protocol = paged{l, more}
	return l
}

// TestCall_CallersGone_IsNotRepeated: the script has more to do, and no caller waits for the
// result.
func TestCall_CallersGone_IsNotRepeated(t *testing.T) {
	for _, way := range ways {
		for _, others := range []int{0, 32} {
			runWithServer(t, fmt.Sprint(way.name, " beside ", others), func(t *testing.T, f *fixture) {
				f.Latency.Store(int64(time.Millisecond))
				g := f.engine()
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error)
				for i := range others + 1 {
					go func() { ended <- way.call(ctx, openPaged(g, fmt.Sprint(i), endless), 1) }()
				}
				time.Sleep(100 * time.Millisecond)
				assert.Greater(t, f.Scripts.Load(), int64(20), "while they are there")
				cancel()
				for range others + 1 {
					assert.ErrorIs(t, <-ended, context.Canceled)
				}
				time.Sleep(10 * time.Millisecond) // what had been sent is answered
				before := f.Scripts.Load()
				time.Sleep(time.Second)
				assert.Equal(t, before, f.Scripts.Load(), "scripts after them")
				assert.True(t, g.idle())
			})
		}
	}
}

// TestCall_OneOfItsCallersGone_GoesOn: for the others.
func TestCall_OneOfItsCallersGone_GoesOn(t *testing.T) {
	for _, way := range ways {
		runWithServer(t, way.name, func(t *testing.T, f *fixture) {
			l := openPaged(f.engine(), "limiter", 9)
			f.Latency.Store(int64(10 * time.Millisecond))
			leaves, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			stays := make(chan error)
			go func() { stays <- way.call(t.Context(), l, 1) }()
			go func() { stays <- way.call(t.Context(), l, 1) }()
			assert.ErrorIs(t, way.call(leaves, l, 1), context.DeadlineExceeded)
			assert.NoError(t, <-stays)
			assert.NoError(t, <-stays)
		})
	}
}

type answersAll struct {
	rueidis.Client
	calls atomic.Int64
	reply rueidis.RedisResult
}

func (c *answersAll) Do(context.Context, rueidis.Completed) rueidis.RedisResult {
	c.calls.Add(1)
	return c.reply
}

func (c *answersAll) DoMulti(_ context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	c.calls.Add(int64(len(commands)))
	return slices.Repeat([]rueidis.RedisResult{c.reply}, len(commands))
}

func TestCall_ScriptNeverFinishes_EndsWithAnError(t *testing.T) {
	for _, way := range ways {
		runWithServer(t, way.name, func(t *testing.T, f *fixture) {
			conn := &answersAll{Client: f.Conn, reply: f.Conn.Do(t.Context(), f.Conn.B().Ping().Build())}
			g := New(Settings{Redis: conn})
			err := way.call(context.WithoutCancel(t.Context()), openPaged(g, "limiter", endless), 1)
			assert.ErrorContains(t, err, "limiter: the script has not finished")
			assert.EqualValues(t, maxPages, conn.calls.Load())
		})
	}
}

func TestCall_PrefetchWithoutCallers_LastsAsLongAsThePrefetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &Batch{Prefetch: Prefetch{Span: time.Second}}
		ctx := b.context(t.Context())
		time.Sleep(time.Second - 1)
		assert.NoError(t, ctx.Err())
		time.Sleep(time.Nanosecond)
		assert.ErrorIs(t, ctx.Err(), context.Canceled)
	})
}

// keeping is a connection that keeps the contexts of its calls, as a hook does that logs later.
type keeping struct {
	rueidis.Client
	kept []context.Context
}

func (c *keeping) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	c.kept = append(c.kept, ctx)
	return c.Client.Do(ctx, command)
}

// TestCall_Context_KeepsItsValuesAfterTheCall: the batch of the call is used again.
func TestCall_Context_KeepsItsValuesAfterTheCall(t *testing.T) {
	for _, way := range ways {
		runWithServer(t, way.name, func(t *testing.T, f *fixture) {
			conn := &keeping{Client: f.Conn}
			l := f.open(Settings{Redis: conn}, 10, time.Hour)
			for caller := range 3 {
				require.NoError(t, way.call(context.WithValue(context.Background(), callerKey{}, caller), l, 1))
			}
			time.Sleep(time.Second)
			for caller, ctx := range conn.kept {
				want := any(caller)
				if way.waits {
					want = nil // the calls of a queue have no caller
				}
				assert.Equal(t, want, ctx.Value(callerKey{}))
			}
		})
	}
}

// TestCall_ServerTimeOnASlowLink_PermitsReturnInTime: the script reads the time after the call has
// left, so permits return no earlier than it reports.
func TestCall_ServerTimeOnASlowLink_PermitsReturnInTime(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.open(Settings{ServerTime: true}, 10, 4*time.Second)
		f.RequireGranted(l, 10)
		time.Sleep(100 * time.Millisecond)
		before := f.Scripts.Load()
		f.Latency.Store(int64(500 * time.Millisecond))
		time.AfterFunc(700*time.Millisecond, func() { f.Latency.Store(0) })
		require.NoError(t, l.Acquire(t.Context(), 1))
		assert.EqualValues(t, 2, f.Scripts.Load()-before, "calls: one that is denied, and one in time")
	})
}

// TestCall_CallerLeavesWhileTheSlotMoves_NoGoroutineOutlivesTheLastCommand by more than 100 ms.
func TestCall_CallerLeavesWhileTheSlotMoves_NoGoroutineOutlivesTheLastCommand(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(10, time.Hour)
		f.fail(moving)
		ctx, cancel := context.WithTimeout(t.Context(), 128*time.Millisecond)
		defer cancel()
		_, err := l.TryAcquire(ctx, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		sent := f.Scripts.Load() // the last one a millisecond ago
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, sent, f.Scripts.Load())
		synctest.Wait()
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		assert.NotContains(t, string(stacks), "(*Limiter).run")
	})
}

// TestCall_SlotMoves_IsRepeated: no script ran, so a retry is safe. Grants and denials have the time of
// the retry, and each call is reported once.
func TestCall_SlotMoves_IsRepeated(t *testing.T) {
	observed(t, Settings{Denials: time.Hour}, 10, time.Hour, func(ctx context.Context, f *fixture, l *fake, o *events) {
		start := time.Now()
		f.moveSlot()
		f.RequireTrue(l.TryAcquire(ctx, 10))
		took := time.Since(start)
		assert.Less(t, took, 200*time.Millisecond)
		_, calls, _ := o.all()
		assert.Equal(t, []RedisCallInfo{{Limiter: &l.Limiter, Requests: 1, Permits: 10, Took: took}}, calls)
		returns := time.Now().Add(time.Hour - trip)
		f.moveSlot()
		f.RequireFalse(l.TryAcquire(ctx, 1))
		time.Sleep(time.Second)
		denied, err := l.Take(ctx, 1)
		require.NoError(t, err)
		assert.Equal(t, FromMemory, denied.From)
		assert.Equal(t, time.Until(returns), denied.RetryAfter)
		time.Sleep(denied.RetryAfter)
		f.RequireTrue(l.TryAcquire(ctx, 10))
	})
}

func TestCall_SlotKeepsMoving_FailsAfterAQuarterOfASecond(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(10, time.Hour)
		f.fail(moving)
		start := time.Now()
		assert.ErrorContains(t, redistest.Err(l.TryAcquire(t.Context(), 1)), "TRYAGAIN")
		assert.Equal(t, 255*time.Millisecond, time.Since(start))
		assert.ErrorContains(t, l.Release(t.Context(), 1), "TRYAGAIN")
		assert.Equal(t, 2*255*time.Millisecond, time.Since(start))
	})
}

// TestCall_Context_MayBeAKey: a hook of rueidis may have the contexts of calls as keys of a map.
func TestCall_Context_MayBeAKey(t *testing.T) {
	b := new(Batch)
	calls := map[context.Context]bool{b.context(t.Context()): true, b.context(t.Context()): true}
	calls[Unattended(t.Context())] = true
	_, err := Detach(t.Context(), func(ctx context.Context) (any, error) {
		calls[ctx] = true
		return nil, nil
	})
	require.NoError(t, err)
	assert.Len(t, calls, 4)
}
