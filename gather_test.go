package rratelimiter

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBatchesAreWithinTheirBounds, and what gathers counts only those who still wait.
func TestBatchesAreWithinTheirBounds(t *testing.T) {
	c, n := freshNames()
	l := named(c, "a")
	sums := func(e *entry) (requests, live []int, permits []int64) {
		for b := e.first; b != nil; b = b.next {
			requests, live, permits = append(requests, len(b.requests)), append(live, b.live), append(permits, b.permits)
		}
		return requests, live, permits
	}
	gather := func(e *entry, wants ...int64) (made []*request) {
		for _, permits := range wants {
			r := &request{permits: permits}
			b := c.gather(e, r)
			assert.Same(t, b, r.batch)
			made = append(made, r)
		}
		return made
	}
	abandon := func(e *entry, requests ...*request) {
		e.mu.Unlock()
		for _, r := range requests {
			assert.True(t, c.abandon(e, r))
			assert.Equal(t, abandoned, r.state)
		}
		e.mu.Lock()
	}

	e := n.lock(l)
	e.leaving = true
	many := make([]int64, mostRequests+1)
	for i := range many {
		many[i] = 2
	}
	made := gather(e, many...)
	requests, live, permits := sums(e)
	assert.Equal(t, []int{mostRequests, 1}, requests)
	assert.Equal(t, []int{mostRequests, 1}, live)
	assert.Equal(t, []int64{2 * mostRequests, 2}, permits)

	// Half of them and one more go: so do their requests.
	abandon(e, made[:mostRequests/2+1]...)
	requests, live, permits = sums(e)
	assert.LessOrEqual(t, requests[0], mostRequests/2)
	assert.Equal(t, []int{mostRequests/2 - 1, 1}, live)
	assert.Equal(t, []int64{mostRequests - 2, 2}, permits)

	// A batch of nobody goes, but the first one, which a call is about to take along.
	abandon(e, made[mostRequests])
	abandon(e, made[mostRequests/2+1:mostRequests]...)
	requests, live, permits = sums(e)
	assert.Equal(t, []int{0}, requests)
	assert.Equal(t, []int{0}, live)
	assert.Equal(t, []int64{0}, permits)
	e.leaving = false
	abandon(e, gather(e, 3)...)
	assert.Nil(t, e.first)
	assert.Nil(t, e.last)

	// No call adds up more than 2^53.
	gather(e, 1, maxPermits-1, 1, maxPermits, 1)
	_, _, permits = sums(e)
	assert.Equal(t, []int64{maxPermits, 1, maxPermits, 1}, permits)
	b := e.leave()
	assert.Len(t, b.requests, 2)
	assert.Equal(t, inFlight, b.requests[0].state)

	// A batch that is used again is as good as new.
	b.rate, b.free, b.denied, b.returns, b.answered = 1, 2, 3, []returning{{1, 1}}, make(chan struct{})
	b.clear()
	assert.Empty(t, b.requests)
	assert.Zero(t, b.permits)
	assert.Zero(t, b.live)
	assert.Nil(t, b.answered)
	assert.Zero(t, b.denied)
	assert.Empty(t, b.returns)
	for e.first != nil {
		e.remove(e.first)
	}
	n.unlock(e)
}

// TestWhereCallsTakeLongMoreOfThemFly at once, and where they do not, few.
func TestWhereCallsTakeLongMoreOfThemFly(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 1 << 40, Interval: time.Hour})
		calls := func() int64 {
			before := b.scripts.Load()
			b.latency.Store(int64(10 * time.Millisecond))
			_, errs := crowd(b, 40, func(int) (Decision, error) { return l.Take(b.Context(), 1) })
			for _, err := range errs {
				require.NoError(b, err)
			}
			return b.scripts.Load() - before
		}
		assert.EqualValues(b, fastCalls+1, calls())
		assert.EqualValues(b, mostCalls+1, calls(), "the last one was slow")
		assert.EqualValues(b, mostCalls+1, calls())
		b.latency.Store(0)
		b.take(l, 1)
		assert.EqualValues(b, fastCalls+1, calls(), "the last one was fast")
		b.latency.Store(int64(slowCall))
		b.take(l, 1)
		assert.EqualValues(b, mostCalls+1, calls(), "the last one was just slow")
		assert.Zero(b, l.client.calling.Load())
	})
}

// TestACallerDoesNotFlyForOthers: one that sends its call itself has its answer before the next call leaves.
func TestACallerDoesNotFlyForOthers(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 100, Interval: time.Hour})
		b.latency.Store(int64(10 * time.Millisecond))
		start := time.Now()
		took := make([]time.Duration, 5)
		var callers sync.WaitGroup
		for i := range took {
			callers.Go(func() {
				_, err := l.TryAcquire(context.Background(), 1)
				assert.NoError(b, err)
				took[i] = time.Since(start)
			})
			synctest.Wait()
		}
		callers.Wait()
		assert.Equal(b, 10*time.Millisecond, took[0])
		for _, later := range took[1:] {
			assert.GreaterOrEqual(b, later, 20*time.Millisecond)
		}
	})
}

// TestAFullBatchThatWaitsLeavesFirst, though a caller who comes later may send a call.
func TestAFullBatchThatWaitsLeavesFirst(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: maxPermits, Interval: time.Hour})
		b.latency.Store(int64(10 * time.Millisecond))
		var callers sync.WaitGroup
		ask := func(permits int64) {
			callers.Go(func() {
				ok, err := l.TryAcquire(context.Background(), permits)
				assert.NoError(b, err)
				assert.Equal(b, permits < maxPermits, ok, "%d permits", permits)
			})
			synctest.Wait()
		}
		ask(1)
		ask(1)
		for range 4 { // each alone in its batch
			ask(maxPermits)
		}
		pass(15 * time.Millisecond) // one call was slow, so more may fly
		for range 10 {
			ask(2)
		}
		callers.Wait()
		b.latency.Store(0)
		b.free(l, maxPermits-22)
	})
}

// TestACallForNobodyIsNotSent.
func TestACallForNobodyIsNotSent(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
		before := b.scripts.Load()
		e, r := l.client.names.lock(l), &request{permits: 1}
		l.client.gather(e, r)
		e.leaving, e.calls = true, 1
		l.client.calling.Add(1)
		e.mu.Unlock()
		require.True(b, l.client.abandon(e, r))
		l.fly(b.Context(), e, false)
		assert.Equal(b, before, b.scripts.Load())
		assert.Zero(b, l.client.names.live.Load())
		assert.Zero(b, l.client.calling.Load())
	})
}

// TestWhatIsAboutToLeaveWithACallGoesWithThatOne, though another call has its answer before.
func TestWhatIsAboutToLeaveWithACallGoesWithThatOne(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
		b.latency.Store(int64(10 * time.Millisecond))
		var callers sync.WaitGroup
		callers.Go(func() {
			ok, err := l.TryAcquire(b.Context(), 1)
			assert.NoError(b, err)
			assert.True(b, ok)
		})
		synctest.Wait()
		e, r := l.client.names.lock(l), &request{permits: 2}
		l.client.gather(e, r)
		e.leaving = true
		e.calls++
		e.mu.Unlock()
		callers.Wait()
		synctest.Wait()
		e.mu.Lock()
		assert.Equal(b, queued, r.state)
		require.NotNil(b, e.first)
		e.mu.Unlock()
		l.fly(b.Context(), e, false)
		assert.True(b, r.decision.Allowed)
		assert.Zero(b, l.client.calling.Load())
		b.latency.Store(0)
		b.free(l, 7)
	})
}
