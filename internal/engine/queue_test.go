package engine

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// line starts waiters one after another. It logs the second at which each was served, or failed.
type line struct {
	*fixture
	start time.Time
	done  sync.WaitGroup
	mu    sync.Mutex
	log   []string
}

// wait starts a waiter, without a timeout if that is 0.
func (q *line) wait(l *fake, who string, permits int64, timeout time.Duration) {
	q.done.Go(func() {
		served, _ := l.TryAcquireWithin(q.Context(), permits, timeout)
		q.say(who, served)
	})
	synctest.Wait()
}

func (q *line) say(who string, served bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !served {
		who += " failed"
	}
	q.log = append(q.log, fmt.Sprintf("%s at %gs", who, time.Since(q.start).Round(time.Millisecond).Seconds()))
}

func (q *line) said() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.log)
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

func runInQueue(t *testing.T, name string, limit int64, every time.Duration, test func(q *line, l *fake)) {
	t.Run(name, func(t *testing.T) { inQueue(t, limit, every, test) })
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
		runInQueue(t, name, 10, 10*time.Second, func(q *line, l *fake) {
			for range test.taken {
				q.RequireGranted(l, 1)
				time.Sleep(test.pause)
			}
			q.Latency.Store(int64(test.latency))
			before := q.Scripts.Load()
			for _, c := range test.callers {
				q.wait(l, c.name, c.permits, c.timeout)
			}
			q.done.Wait()
			assert.ElementsMatch(t, test.want, q.log)
			assert.LessOrEqual(t, q.Scripts.Load()-before, int64(len(test.want)+2), "calls when the head could be served")
		})
	}
}

// TestTryAcquireWithin_TimeoutEndsDuringAnotherCall_IsFalse: Redis has denied it before.
func TestTryAcquireWithin_TimeoutEndsDuringAnotherCall_IsFalse(t *testing.T) {
	inQueue(t, 1, 10*time.Second, func(q *line, l *fake) {
		q.RequireGranted(l, 1)
		q.Latency.Store(int64(100 * time.Millisecond))
		q.RequireFalse(l.TryAcquireWithin(q.Context(), 1, 10*time.Second+50*time.Millisecond))
		assert.Equal(t, 10*time.Second+50*time.Millisecond, time.Since(q.start))
		time.Sleep(time.Second)
		assert.EqualValues(t, 1, q.free(l))
	})
}

func TestQueue_KeyChanges_QueueCallsAgain(t *testing.T) {
	inQueue(t, 10, time.Hour, func(q *line, l *fake) {
		l.DependsOn = []string{"a", "b"}
		q.RequireGranted(l, 10)
		q.wait(l, "waiter", 1, 0)
		q.change(l, func(s *state) { s.grants = nil }) // by another program
		change(q.Context(), l.Engine, "c")
		synctest.Wait()
		assert.Empty(t, q.said())
		change(q.Context(), l.Engine, "b")
		q.done.Wait()
		assert.Equal(t, []string{"waiter at 0s"}, q.said())
		synctest.Wait()
		assert.Zero(t, size(&l.Engine.registry.index.keys), "no state of callers that do not wait")
	})
}

// TestQueue_AnotherProgramChangesTheLimiter_WaitersLearnIt within five seconds. A deadline that the forecast
// cannot meet still fails at once.
func TestQueue_AnotherProgramChangesTheLimiter_WaitersLearnIt(t *testing.T) {
	inQueue(t, 10, time.Hour, func(q *line, l *fake) {
		q.RequireGranted(l, 10)
		q.wait(l, "late", 1, time.Minute)
		q.wait(l, "waiter", 1, 0)
		time.Sleep(11 * time.Second)
		q.change(l, func(s *state) { s.grants = nil })
		q.done.Wait()
		assert.Equal(t, []string{"late failed at 0s", "waiter at 15s"}, q.said())
		assert.LessOrEqual(t, q.Scripts.Load(), int64(6), "calls at 0, 0, 0, 5, 10 and 15 s")
	})
}

func TestErrDeadline_Text_NamesNoTimeThatIsOver(t *testing.T) {
	const text = "rratelimiter: 3 permits of \"x\" cannot be had before the deadline"
	for after, want := range map[time.Duration]string{
		0: text, 1: text, -time.Second: text, 1500 * time.Millisecond: text + ", in 1.5s at the earliest",
	} {
		assert.EqualError(t, &deadlineError{permits: 3, name: "x", after: after}, want)
	}
}

// TestWait_Detail_ResultHasTheNumbers of the end of the wait: Redis grants, a prefetch grants, or the permits cannot be
// free in time. Ten permits return ten seconds after their grant.
func TestWait_Detail_ResultHasTheNumbers(t *testing.T) {
	const limit, every = 10, 10 * time.Second
	granted := func(left int64, reset time.Duration) Decision {
		return Decision{Allowed: true, Limit: limit, Remaining: left, ResetAfter: reset}
	}
	denied := func(retry, reset time.Duration) Decision {
		return Decision{Limit: limit, RetryAfter: retry, ResetAfter: reset}
	}
	for name, test := range map[string]struct {
		timeout time.Duration
		waits   int // permits of a waiter before it
		latency time.Duration
		denials time.Duration // of the denial cache
		want    Decision
		after   time.Duration
	}{
		"granted":                   {timeout: time.Minute, want: granted(7, every), after: 8 * time.Second},
		"behind another waiter":     {timeout: time.Minute, waits: 2, want: granted(5, every), after: 8 * time.Second},
		"denied at once":            {timeout: time.Second, want: denied(8*time.Second, 8*time.Second)},
		"denied by memory":          {timeout: time.Second, denials: time.Minute, want: denied(8*time.Second, 8*time.Second)},
		"behind one that takes all": {timeout: 9 * time.Second, waits: 10, want: denied(18*time.Second, 8*time.Second)},
		"denied at the timeout": {timeout: 8*time.Second + 50*time.Millisecond, latency: 40 * time.Millisecond,
			want: denied(soon, 0), after: 8*time.Second + 50*time.Millisecond},
	} {
		runWithServer(t, name, func(t *testing.T, f *fixture) {
			l := f.open(Settings{Denials: test.denials}, limit, every)
			f.RequireGranted(l, limit)
			time.Sleep(2 * time.Second)
			_, err := l.Take(t.Context(), 1) // is denied, which a denial cache keeps
			require.NoError(t, err)
			if test.waits > 0 {
				go func() { assert.NoError(t, l.Acquire(t.Context(), int64(test.waits))) }()
				synctest.Wait()
			}
			f.Latency.Store(int64(test.latency))
			time.AfterFunc(time.Second, func() { f.Latency.Store(int64(2 * test.latency)) })
			begin := time.Now()
			var result Result
			_, err = l.Wait(t.Context(), Ask{Permits: 3, Detail: true}, begin.Add(test.timeout), &result)
			require.NoError(t, err)
			assert.Equal(t, test.want, result.Decision)
			assert.Equal(t, test.after, time.Since(begin))
			time.Sleep(3 * every)
		})
	}
}
