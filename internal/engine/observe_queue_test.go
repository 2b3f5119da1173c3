package engine

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestObserver_Waiting_HasTheLengthOfTheQueue(t *testing.T) {
	observed(t, Settings{}, 2, time.Second, func(ctx context.Context, f *fixture, l *fake, o *events) {
		other := f.open(Settings{Observer: o.observer(f)}, 2, time.Second)
		before := f.Scripts.Load()
		leaves, leave := context.WithCancel(ctx)
		var callers sync.WaitGroup
		for range 6 {
			callers.Go(func() { assert.NoError(f, l.Acquire(ctx, 1)) })
			synctest.Wait()
		}
		callers.Go(func() { assert.ErrorIs(f, l.Acquire(leaves, 1), context.Canceled) })
		synctest.Wait()
		callers.Go(func() { assert.NoError(f, other.Acquire(ctx, 1)) }) // of another Client
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		_, _, waiting := o.all()
		var lengths []int
		for _, w := range waiting {
			if w.Change == 1 {
				lengths = append(lengths, w.Length)
			}
		}
		assert.Equal(f, []int{1, 2, 3, 4, 5, 6, 7, 1}, lengths)
		leave()
		callers.Wait()
		time.Sleep(time.Second)
		_, calls, more := o.all()
		sum := 0
		for _, w := range append(waiting, more...) {
			sum += w.Change
			assert.GreaterOrEqual(f, w.Length, 0)
		}
		assert.Zero(f, sum)
		assert.Zero(f, more[len(more)-1].Length)
		assert.NotEmpty(f, calls)
		assert.Greater(f, f.Scripts.Load()-before, int64(len(calls)), "and some before")
	})
}

// TestObserver_Waited_CountsFromTheFirstAnswer: a caller that a reply leaves in the queue has
// waited, and so have those behind it.
func TestObserver_Waited_CountsFromTheFirstAnswer(t *testing.T) {
	observed(t, Settings{}, 4, time.Second, func(ctx context.Context, f *fixture, l *fake, o *events) {
		var callers sync.WaitGroup
		acquire := func(ctx context.Context, permits int64) {
			callers.Go(func() { _ = l.Acquire(ctx, permits) })
			synctest.Wait()
		}
		within := func(permits int64, timeout time.Duration) {
			callers.Go(func() { _, _ = l.TryAcquireWithin(ctx, permits, timeout) })
			synctest.Wait()
		}
		// waited returns how long the requests for so many permits waited, and took.
		waited := func(permits int64) (all [][2]time.Duration) {
			for _, d := range o.decisions {
				if d.Permits == permits {
					all = append(all, [2]time.Duration{d.Waited, d.Took})
				}
			}
			return all
		}
		o.all()

		acquire(ctx, 2) // with a call of its own
		time.Sleep(trip / 2)
		acquire(ctx, 1) // while that is under way
		callers.Wait()
		assert.Equal(f, [][2]time.Duration{{0, trip}}, waited(2))
		assert.Equal(f, [][2]time.Duration{{0, 3 * trip / 2}}, waited(1))
		within(3, time.Second/2) // refused by the first answer
		callers.Wait()
		assert.Equal(f, [][2]time.Duration{{0, trip}}, waited(3))
		leaves, leave := context.WithTimeout(ctx, trip/2)
		defer leave()
		acquire(leaves, 1) // leaves before the first answer
		callers.Wait()
		assert.Equal(f, [2]time.Duration{0, trip / 2}, waited(1)[1])
		time.Sleep(trip)
		o.all()

		acquire(ctx, 4) // stays queued
		time.Sleep(trip * 2)
		acquire(ctx, 1)          // behind it
		within(2, time.Second/2) // refused there
		gone, goes := context.WithCancel(ctx)
		acquire(gone, 3) // leaves from there
		time.Sleep(5 * trip)
		goes()
		callers.Wait()
		require.Len(f, o.decisions, 4)
		for _, d := range o.decisions {
			assert.Positive(f, d.Waited, "%+v", d)
			assert.Equal(f, d.Took, d.Waited, "%+v", d)
		}
		time.Sleep(5 * time.Second)
		f.RequireTrue(l.TryAcquire(ctx, 3))
		o.all()

		acquire(ctx, 2) // stays queued
		time.Sleep(trip * 2)
		for sent := f.Sent.Load(); f.Sent.Load() == sent; { // until it is asked for again
			time.Sleep(time.Millisecond)
		}
		acquire(ctx, 1) // behind it for the rest of that call, and served by the next one
		callers.Wait()
		require.Len(f, waited(1), 1)
		assert.Positive(f, waited(1)[0][0])
		assert.Less(f, waited(1)[0][1], 3*trip)
	})
}

func TestObserver_NamesOfOneLimiter_CallHasTheNameOfItsCaller(t *testing.T) {
	for kind, ask := range permitCalls {
		runWithServer(t, kind, func(t *testing.T, f *fixture) {
			var mu sync.Mutex
			reported := make(map[string]any)
			g := New(Settings{Redis: f.Conn, Observer: &Observer{RedisCall: func(ctx context.Context, c Call) {
				mu.Lock()
				defer mu.Unlock()
				reported[c.Limiter.Name] = ctx.Value(callerKey{})
			}}})
			f.Latency.Store(int64(trip))
			var callers sync.WaitGroup
			for _, name := range []string{"a", "b", "c", "d"} { // two calls may be in flight, so that a goroutine sends several
				l := open(g, "limiter", 1000, time.Hour)
				l.Name = name
				callers.Go(func() { assert.NoError(t, ask(context.WithValue(t.Context(), callerKey{}, name), l)) })
				synctest.Wait()
			}
			callers.Wait()
			assert.Greater(t, len(reported), 1)
			for name, caller := range reported {
				assert.Equal(t, name, caller)
			}
		})
	}
}
