package rratelimiter

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheOrderOfThoseWhoWait stays, whoever leaves: the reference is a slice.
func TestTheOrderOfThoseWhoWait(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var q list
	var want []*waiter
	for range 2000 {
		if n := len(want); n == 0 || n < 8 && random.IntN(2) == 0 {
			w := new(waiter)
			q.push(w)
			want = append(want, w)
		} else {
			i := random.IntN(n)
			q.remove(want[i])
			want = slices.Delete(want, i, i+1)
		}
		var forth, back []*waiter
		for w := q.first; w != nil && len(forth) <= len(want); w = w.next {
			forth = append(forth, w)
		}
		for w := q.last; w != nil && len(back) <= len(want); w = w.prev {
			back = append(back, w)
		}
		slices.Reverse(back)
		require.True(t, slices.Equal(want, forth), "from the first on")
		require.True(t, slices.Equal(want, back), "from the last on")
	}
}

// TestTheSumsOfAQueueAreThoseOfItsWaiters, however they come and leave: served, refused, too late, cancelled, or with an error.
func TestTheSumsOfAQueueAreThoseOfItsWaiters(t *testing.T) {
	inQueue(t, Rate{Permits: 20, Interval: 2 * second}, func(q *line, l *Limiter) {
		random := rand.New(rand.NewPCG(3, 4))
		check := func() (waiting int) {
			e := l.client.names.find("limiter")
			if e == nil {
				return 0
			}
			defer l.client.names.unlock(e)
			if e.queue == nil {
				return 0
			}
			var wanted, ahead total
			judged := true
			var last uint64
			for w := e.queue.waiters.first; w != nil; w = w.next {
				judged = judged && w != e.queue.unjudged
				if judged {
					ahead.add(w.permits)
				}
				wanted.add(w.permits)
				assert.Greater(t, w.arrival, last)
				assert.Less(t, w.state, answered)
				last = w.arrival
				waiting++
			}
			assert.Equal(t, wanted, e.queue.wanted, "wanted by all")
			assert.Equal(t, judged, e.queue.unjudged == nil, "unjudged is one who waits")
			if !judged {
				assert.Equal(t, ahead, e.queue.ahead, "wanted by those before the first unjudged")
			}
			return waiting
		}
		q.latency.Store(int64(30 * time.Millisecond))
		var callers sync.WaitGroup
		most := 0
		for step := range 1500 {
			permits := 1 + random.Int64N(6)
			if random.IntN(40) == 0 {
				permits = 21
			}
			ctx, cancel := context.WithCancel(q.Context())
			if random.IntN(3) == 0 {
				time.AfterFunc(time.Duration(random.IntN(3000))*time.Millisecond, cancel)
			}
			timeout := time.Duration(random.IntN(4000)) * time.Millisecond
			callers.Go(func() {
				defer cancel()
				if timeout > 3*second {
					_ = l.Acquire(ctx, permits)
				} else {
					_, _ = l.TryAcquireWithin(ctx, permits, timeout)
				}
			})
			switch random.IntN(60) {
			case 0:
				callers.Go(func() { _ = l.Release(q.Context(), 10) })
			case 1:
				q.redis.SetError("OOM")
			case 2, 3, 4, 5:
				q.redis.SetError("")
			}
			if random.IntN(4) > 0 {
				pass(time.Duration(random.IntN(100)) * time.Millisecond)
			}
			synctest.Wait()
			most = max(most, check())
			require.False(t, t.Failed(), "step %d", step)
		}
		q.redis.SetError("")
		assert.Greater(t, most, 20)
		callers.Wait()
		pass(second)
	})
}

// TestSmallRequestsDoNotOvertakeALargeOne in a call that carries both.
func TestSmallRequestsDoNotOvertakeALargeOne(t *testing.T) {
	inQueue(t, Rate{Permits: 10, Interval: 10 * second}, func(q *line, l *Limiter) {
		q.take(l, 5)
		pass(second)
		q.latency.Store(int64(100 * time.Millisecond))
		q.wait(l, "first", 1, 0)
		q.wait(l, "large", 8, 0)
		q.wait(l, "small", 1, 0)
		q.wait(l, "smaller", 1, 0)
		q.done.Wait()
		assert.ElementsMatch(t, []string{"first at 1.1s", "large at 10.1s", "small at 10.1s", "smaller at 11.1s"}, q.said())
	})
}
