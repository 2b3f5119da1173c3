package engine

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
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
		var granted atomic.Int64
		var running sync.WaitGroup
		for range callers {
			running.Go(func() {
				if ok, err := l.TryAcquire(t.Context(), 1); assert.NoError(t, err) && ok {
					granted.Add(1)
				}
			})
		}
		running.Wait()
		assert.EqualValues(t, callers-1, granted.Load())
		assert.LessOrEqual(t, f.Scripts.Load(), int64(1+fastCalls+1))
		assert.Zero(t, g.registry.live.Load())
	})
}

// TestSingle_CallerLeaves_PermitReturns: and its call is reported.
func TestSingle_CallerLeaves_PermitReturns(t *testing.T) {
	var reported atomic.Int64 // requests, with their calls
	observer := &Observer{RedisCall: func(_ context.Context, c Call) { reported.Add(int64(c.Requests)) }}
	withSingles(t, Settings{Observer: observer}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 5, time.Minute)
		f.RequireGranted(l, 2)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, redistest.Err(l.TryAcquire(ctx, 1)), context.DeadlineExceeded)
		time.Sleep(10 * time.Millisecond)
		assert.EqualValues(t, 2, f.free(l), "the call was sent")
		time.Sleep(time.Second)
		assert.EqualValues(t, 3, f.free(l))
		assert.EqualValues(t, 2, reported.Load())
		assert.EqualValues(t, pipelined+1, g.calling.Load())
	})
}

// TestSingle_ReusedState_KeepsNothing: the next call of another limiter has its own answer.
func TestSingle_ReusedState_KeepsNothing(t *testing.T) {
	withSingles(t, Settings{}, func(t *testing.T, f *fixture, g *Engine) {
		for i := range 20 {
			l := open(g, fmt.Sprint("limiter:", i), 3, time.Minute)
			for left := 2; left >= -1; left-- {
				result, err := l.Take(t.Context(), 1)
				require.NoError(t, err)
				assert.Equal(t, left >= 0, result.Allowed)
				assert.EqualValues(t, max(0, left), result.Remaining)
			}
			result, err := l.TakeUpTo(t.Context(), 2)
			require.NoError(t, err)
			assert.Zero(t, result.Granted)
			assert.ErrorIs(t, redistest.Err(l.TryAcquire(t.Context(), 4)), aboveLimit{4, 3})
			f.fail("OOM")
			assert.ErrorContains(t, redistest.Err(l.TryAcquire(t.Context(), 1)), l.ID+": OOM")
			f.fail("")
			f.RequireFalse(l.TryAcquire(t.Context(), 1))
		}
	})
}

// TestSingle_ClockPanics_NothingIsLeft: the next call is a single again.
func TestSingle_ClockPanics_NothingIsLeft(t *testing.T) {
	panics := false
	now := func() time.Time {
		if panics {
			panic("the program's clock")
		}
		return time.Now()
	}
	withSingles(t, Settings{Now: now}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 5, time.Minute)
		panics = true
		assert.Panics(t, func() { _, _ = l.TryAcquire(t.Context(), 1) })
		panics = false
		assert.EqualValues(t, pipelined+1, g.calling.Load())
		assert.Zero(t, g.registry.busy.of(l.ID).Load())
		f.RequireTrue(l.TryAcquire(t.Context(), 1))
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
		f.RequireTrue(l.TryAcquire(t.Context(), 1))
		assert.EqualValues(t, 4, f.free(l))
		f.RequireTrue(l.TryAcquire(t.Context(), 1))
		assert.Equal(t, 10*time.Millisecond, time.Duration(took.Load()))
	})
}

// fullReplies is a fake that requires calls whose replies have all fields.
type fullReplies struct {
	*fake
	t *testing.T
}

func (l fullReplies) Arguments(b *Batch, now time.Time) {
	assert.True(l.t, b.Full)
	l.fake.Arguments(b, now)
}

// TestSingle_DenialCache_RemembersItsDenial: a grant ends it, and so does a change during its call.
func TestSingle_DenialCache_RemembersItsDenial(t *testing.T) {
	withSingles(t, Settings{Denials: time.Hour}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 2, time.Minute)
		l.Protocol = fullReplies{l, t}
		from := func() Source {
			result, err := l.Take(t.Context(), 2)
			require.NoError(t, err)
			assert.False(t, result.Allowed)
			return result.From
		}
		f.RequireTrue(l.TryAcquire(t.Context(), 1))
		assert.Equal(t, FromRedis, from())
		assert.Equal(t, FromMemory, from())
		f.RequireTrue(l.TryAcquire(t.Context(), 1))
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
			f.RequireTrue(l.TryAcquire(t.Context(), 1))
		}
		result, err := l.Take(t.Context(), 1)
		require.NoError(t, err)
		assert.Equal(t, FromLease, result.From)
		require.NoError(t, g.Flush(t.Context()))
	})
}

func TestSingle_Receipt_RefundsItsGrant(t *testing.T) {
	withSingles(t, Settings{}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 5, time.Minute)
		slot := receipt.Collect(t.Context())
		f.RequireTrue(l.TryAcquire(slot, 2))
		require.NoError(t, slot.Of(2).Refund(t.Context(), 1))
		assert.EqualValues(t, 4, f.free(l))
	})
}

// TestSingle_CallerLeavesAScriptWithMoreCalls_ItsCallIsReported: as one of a shared call.
func TestSingle_CallerLeavesAScriptWithMoreCalls_ItsCallIsReported(t *testing.T) {
	var calls atomic.Int64
	observer := &Observer{RedisCall: func(_ context.Context, c Call) {
		calls.Add(1)
		assert.ErrorIs(t, c.Err, context.Canceled)
	}}
	withSingles(t, Settings{Observer: observer}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 5, time.Minute)
		l.Protocol = twice{l}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, redistest.Err(l.TryAcquire(ctx, 1)), context.DeadlineExceeded)
		time.Sleep(time.Second)
		assert.EqualValues(t, 1, calls.Load())
		assert.EqualValues(t, 5, f.free(l))
	})
}
