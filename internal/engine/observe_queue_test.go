package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

func TestObserver_Waiting_HasTheLengthOfTheQueue(t *testing.T) {
	rate := rratelimiter.Rate{Permits: 2, Interval: second}
	observed(t, rate, func(ctx context.Context, b *fixture, l *rratelimiter.Limiter, o *events) {
		other := rratelimiter.New(b.Conn, rratelimiter.WithObserver(o.observer(b))).Limiter("limiter")
		before := b.Scripts.Load()
		leaves, leave := context.WithCancel(ctx)
		var callers sync.WaitGroup
		for range 6 {
			callers.Go(func() { assert.NoError(b, l.Acquire(ctx, 1)) })
			synctest.Wait()
		}
		callers.Go(func() { assert.ErrorIs(b, l.Acquire(leaves, 1), context.Canceled) })
		synctest.Wait()
		callers.Go(func() { assert.NoError(b, other.Acquire(ctx, 1)) }) // of another Client
		synctest.Wait()
		pass(100 * time.Millisecond)
		_, _, waiting := o.all()
		var lengths []int
		for _, w := range waiting {
			if w.Change == 1 {
				lengths = append(lengths, w.Length)
			}
		}
		assert.Equal(b, []int{1, 2, 3, 4, 5, 6, 7, 1}, lengths)
		leave()
		callers.Wait()
		pass(second)
		_, calls, more := o.all()
		sum := 0
		for _, w := range append(waiting, more...) {
			sum += w.Change
			assert.GreaterOrEqual(b, w.Length, 0)
		}
		assert.Zero(b, sum)
		assert.Zero(b, more[len(more)-1].Length)
		assert.NotEmpty(b, calls)
		assert.Greater(b, b.Scripts.Load()-before, int64(len(calls)), "and some before")
	})
}

// TestObserver_Waited_CountsFromTheFirstAnswer: a caller that a reply leaves in the queue has
// waited, and so have those behind it.
func TestObserver_Waited_CountsFromTheFirstAnswer(t *testing.T) {
	rate := rratelimiter.Rate{Permits: 4, Interval: second}
	observed(t, rate, func(ctx context.Context, b *fixture, l *rratelimiter.Limiter, o *events) {
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
		pass(trip / 2)
		acquire(ctx, 1) // while that is under way
		callers.Wait()
		assert.Equal(b, [][2]time.Duration{{0, trip}}, waited(2))
		assert.Equal(b, [][2]time.Duration{{0, 3 * trip / 2}}, waited(1))
		within(3, second/2) // refused by the first answer
		callers.Wait()
		assert.Equal(b, [][2]time.Duration{{0, trip}}, waited(3))
		leaves, leave := context.WithTimeout(ctx, trip/2)
		defer leave()
		acquire(leaves, 1) // leaves before the first answer
		callers.Wait()
		assert.Equal(b, [2]time.Duration{0, trip / 2}, waited(1)[1])
		pass(trip)
		o.all()

		acquire(ctx, 4) // stays queued
		pass(trip * 2)
		acquire(ctx, 1)     // behind it
		within(2, second/2) // refused there
		gone, goes := context.WithCancel(ctx)
		acquire(gone, 3) // leaves from there
		pass(5 * trip)
		goes()
		callers.Wait()
		require.Len(b, o.decisions, 4)
		for _, d := range o.decisions {
			assert.Positive(b, d.Waited, "%+v", d)
			assert.Equal(b, d.Took, d.Waited, "%+v", d)
		}
		pass(5 * second)
		ok, err := l.TryAcquire(ctx, 3)
		require.NoError(b, err)
		require.True(b, ok)
		o.all()

		acquire(ctx, 2) // stays queued
		pass(trip * 2)
		for sent := b.Sent.Load(); b.Sent.Load() == sent; { // until it is asked for again
			pass(time.Millisecond)
		}
		acquire(ctx, 1) // behind it for the rest of that call, and served by the next one
		callers.Wait()
		require.Len(b, waited(1), 1)
		assert.Positive(b, waited(1)[0][0])
		assert.Less(b, waited(1)[0][1], 3*trip)
	})
}

func TestObserver_NamesOfOneLimiter_CallHasTheNameOfItsCaller(t *testing.T) {
	withRedis(t, func(b *fixture) {
		var mu sync.Mutex
		reported := make(map[string]any)
		b.limiter(rratelimiter.Rate{Permits: 1000, Interval: time.Hour},
			rratelimiter.WithNameMapper(func(string) string { return "limiter" }),
			rratelimiter.WithObserver(&rratelimiter.Observer{RedisCall: func(ctx context.Context, c rratelimiter.RedisCallInfo) {
				mu.Lock()
				defer mu.Unlock()
				reported[c.Name] = ctx.Value(callerKey{})
			}}))
		b.Latency.Store(int64(trip))
		for _, waits := range []bool{false, true} {
			clear(reported)
			var callers sync.WaitGroup
			for _, name := range []string{"a", "b", "c", "d"} { // two calls may be in flight, so that a goroutine sends several
				ctx := context.WithValue(b.Context(), callerKey{}, name)
				callers.Go(func() {
					if waits {
						assert.NoError(b, b.client.Limiter(name).Acquire(ctx, 1))
						return
					}
					ok, err := b.client.Limiter(name).TryAcquire(ctx, 1)
					assert.NoError(b, err)
					assert.True(b, ok)
				})
				synctest.Wait()
			}
			callers.Wait()
			assert.Greater(b, len(reported), 1)
			for name, caller := range reported {
				assert.Equal(b, name, caller)
			}
		}
	})
}
