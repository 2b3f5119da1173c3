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

// TestQueue_Callers_AreServedInOrder: of ten permits in ten seconds.
func TestQueue_Callers_AreServedInOrder(t *testing.T) {
	const second, trip = time.Second, 100 * time.Millisecond
	type caller struct {
		name    string
		permits int64
		timeout time.Duration // 0 for none
	}
	for name, test := range map[string]struct {
		taken          int // permits
		pause, latency time.Duration
		callers        []caller
		want           []string // may end at the same time
	}{
		"a large request at the head": {10, second, 0, []caller{{"a", 1, 0}, {"large", 3, 0}, {"b", 1, 0}, {"c", 2, 0}},
			[]string{"a at 10s", "large at 13s", "b at 14s", "c at 16s"}},
		"one above the limit": {0, 0, trip, []caller{{"a", 1, 0}, {"above", 11, 0}, {"b", 1, 0}},
			[]string{"a at 0.1s", "above failed at 0.2s", "b at 0.2s"}},
		"one call for several": {5, second, trip,
			[]caller{{"first", 1, 0}, {"large", 7, 0}, {"small", 1, 0}, {"next", 1, 0}},
			[]string{"first at 5.1s", "large at 12.1s", "small at 13.1s", "next at 14.1s"}},
		"a deadline behind others in its call": {10, 0, trip,
			[]caller{{"opens", 1, second}, {"first", 6, 0}, {"second", 6, 15 * second}, {"third", 4, 15 * second}},
			[]string{"opens failed at 0.1s", "second failed at 0.2s", "first at 10.1s", "third at 10.1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			inQueue(t, 10, 10*time.Second, func(q *line, l *fake) {
				for range test.taken {
					q.RequireGranted(l, 1)
					time.Sleep(test.pause)
				}
				q.Latency.Store(int64(test.latency))
				before := q.Scripts.Load()
				for _, c := range test.callers {
					if c.timeout > 0 {
						q.within(l, c.name, c.permits, c.timeout)
					} else {
						q.wait(l, c.name, c.permits)
					}
				}
				q.done.Wait()
				assert.ElementsMatch(t, test.want, q.log)
				assert.LessOrEqual(t, q.Scripts.Load()-before, int64(len(test.want)+2), "calls when the head could be served")
			})
		})
	}
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
		time.Sleep(time.Second / 2)
		cancel()
		synctest.Wait()
		assert.ElementsMatch(t, []string{"large failed at 0.5s", "small at 0.5s"}, q.log)
		assert.EqualValues(t, 1, q.free(l))
	})
}
