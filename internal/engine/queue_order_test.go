package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lastTry is how long a request waits for the reply to a call under way when its timeout ends.
const lastTry = 100 * time.Millisecond

// line starts waiters one after another. It logs the second at which each was served, or failed.
type line struct {
	*fixture
	start time.Time
	done  sync.WaitGroup
	mu    sync.Mutex
	log   []string
}

func (q *line) wait(l *fake, who string, permits int64) {
	q.done.Go(func() { q.say(who, l.Acquire(q.Context(), permits)) })
	synctest.Wait()
}

func (q *line) say(who string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := time.Since(q.start).Round(time.Millisecond).Seconds()
	if err != nil {
		q.log = append(q.log, fmt.Sprintf("%s failed at %gs", who, at))
		return
	}
	q.log = append(q.log, fmt.Sprintf("%s at %gs", who, at))
}

func (q *line) said() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.log)
}

// granted takes permits within a timeout, and reports whether they were granted.
func (q *line) granted(l *fake, permits int64, timeout time.Duration) bool {
	ok, err := l.TryAcquireWithin(q.Context(), permits, timeout)
	require.NoError(q, err)
	return ok
}

func inQueue(t *testing.T, limit int64, every time.Duration, test func(q *line, l *fake)) {
	withServer(t, func(t *testing.T, f *fixture) {
		q := &line{fixture: f}
		l := f.limiter(limit, every)
		q.start = time.Now()
		test(q, l)
		q.done.Wait()
		synctest.Wait()
		f.idle(l)
	})
}

func TestQueue_LargeRequestAtTheHead_IsServedFirst(t *testing.T) {
	inQueue(t, 10, 10*time.Second, func(q *line, l *fake) {
		for range 10 { // one permit returns each second, from the 10th on
			q.RequireGranted(l, 1)
			time.Sleep(time.Second)
		}
		q.start = time.Now().Add(-10 * time.Second)
		q.wait(l, "a", 1)
		q.wait(l, "large", 3)
		q.wait(l, "b", 1)
		q.wait(l, "c", 2)
		q.RequireDenied(l, 1)
		q.done.Wait()
		assert.Equal(t, []string{"a at 10s", "large at 13s", "b at 14s", "c at 16s"}, q.log)
	})
}

// TestQueue_ManyCallers_OneCallForAPermit: the queue calls Redis when its head could be served.
func TestQueue_ManyCallers_OneCallForAPermit(t *testing.T) {
	inQueue(t, 10, 10*time.Second, func(q *line, l *fake) {
		for range 10 {
			q.RequireGranted(l, 1)
			time.Sleep(time.Second)
		}
		before := q.Scripts.Load()
		for i := range 100 {
			q.wait(l, fmt.Sprint(i), 1)
		}
		q.done.Wait()
		assert.LessOrEqual(t, q.Scripts.Load()-before, int64(102))
	})
	t.Run("all return together", func(t *testing.T) {
		inQueue(t, 50, 10*time.Second, func(q *line, l *fake) {
			q.RequireGranted(l, 50)
			before := q.Scripts.Load()
			for i := range 100 {
				q.wait(l, fmt.Sprint(i), 1)
			}
			q.done.Wait()
			assert.LessOrEqual(t, q.Scripts.Load()-before, int64(4))
			assert.Len(t, q.log, 100)
		})
	})
}

// TestTryAcquireWithin_TimeoutEndsDuringAnotherCall_IsFalse: Redis has denied it before.
func TestTryAcquireWithin_TimeoutEndsDuringAnotherCall_IsFalse(t *testing.T) {
	inQueue(t, 1, 10*time.Second, func(q *line, l *fake) {
		q.RequireGranted(l, 1)
		q.Latency.Store(int64(100 * time.Millisecond))
		assert.False(t, q.granted(l, 1, 10*time.Second+50*time.Millisecond))
		assert.Equal(t, 10*time.Second+50*time.Millisecond, time.Since(q.start))
		time.Sleep(time.Second)
		assert.EqualValues(t, 1, q.free(l))
	})
}

func TestQueue_HeadLeaves_NextIsServed(t *testing.T) {
	inQueue(t, 10, 10*time.Second, func(q *line, l *fake) {
		q.RequireGranted(l, 5)
		ctx, cancel := context.WithCancel(q.Context())
		q.done.Go(func() { q.say("large", l.Acquire(ctx, 8)) })
		synctest.Wait()
		q.wait(l, "small", 4)
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		assert.ElementsMatch(t, []string{"large failed at 1s", "small at 1s"}, q.log)
		assert.EqualValues(t, 1, q.free(l))
	})
}

func TestQueue_ClientReleases_ServesAtOnce(t *testing.T) {
	inQueue(t, 10, time.Hour, func(q *line, l *fake) {
		q.RequireGranted(l, 10)
		q.wait(l, "a", 4)
		q.wait(l, "b", 4)
		time.Sleep(time.Second)
		require.NoError(t, l.Release(q.Context(), 5))
		time.Sleep(time.Second)
		q.change(l, func(s *state) { s.limit = 14 })
		change(q.Context(), l.Engine, l.ID)
		q.done.Wait()
		assert.Equal(t, []string{"a at 1s", "b at 2s"}, q.log)
	})
}

func TestQueue_RequestAboveTheRate_DoesNotDelayOthers(t *testing.T) {
	inQueue(t, 10, 10*time.Second, func(q *line, l *fake) {
		q.Latency.Store(int64(100 * time.Millisecond))
		q.wait(l, "a", 1)
		q.wait(l, "above", 11)
		q.wait(l, "b", 1)
		q.done.Wait()
		assert.ElementsMatch(t, []string{"a at 0.1s", "above failed at 0.2s", "b at 0.2s"}, q.log)
	})
}

func TestQueue_CallFails_LaterCallersAreServed(t *testing.T) {
	inQueue(t, 10, 10*time.Second, func(q *line, l *fake) {
		q.Latency.Store(int64(100 * time.Millisecond))
		q.fail("OOM")
		q.wait(l, "a", 1)
		time.AfterFunc(150*time.Millisecond, func() { q.fail("") })
		time.Sleep(10 * time.Millisecond)
		q.wait(l, "b", 1)
		q.done.Wait()
		assert.Equal(t, []string{"a failed at 0.1s", "b at 0.2s"}, q.log)
	})
}

func TestQueue_OneCallForSeveral_KeepsTheirOrder(t *testing.T) {
	inQueue(t, 10, 10*time.Second, func(q *line, l *fake) {
		q.RequireGranted(l, 5)
		time.Sleep(time.Second)
		q.Latency.Store(int64(100 * time.Millisecond))
		q.wait(l, "first", 1)
		q.wait(l, "large", 8)
		q.wait(l, "small", 1)
		q.wait(l, "smaller", 1)
		q.done.Wait()
		assert.ElementsMatch(t, []string{"first at 1.1s", "large at 10.1s", "small at 10.1s", "smaller at 11.1s"}, q.said())
	})
}
