package engine

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The forecast of a queue follows from the last reply and from the callers ahead alone.

func waiterFor(permits int64) *waiter { return &waiter{Request: Request{Ask: Ask{Permits: permits}}} }

// queueOf returns a queue of waiters.
func queueOf(all ...*waiter) *queue {
	q := &queue{woken: make(chan struct{}, 1)}
	for _, w := range all {
		q.add(w)
	}
	return q
}

// TestQueue_Call_CarriesThoseThatCouldBeServed: and one more, for which the reply reports the wait.
func TestQueue_Call_CarriesThoseThatCouldBeServed(t *testing.T) {
	for name, test := range map[string]struct {
		q     *queue
		wants []int64
		want  int // so many of them leave
	}{
		"nothing is known": {&queue{}, []int64{400, 600, 100, 900}, 4},
		"a limit": {&queue{knowledge: reported(&view{limit: 1000, free: 1000, every: time.Hour})},
			[]int64{400, 600, 100, 900}, 3},
		"the first has to wait": {&queue{
			knowledge: reported(&view{limit: 1000, free: 300, after: time.Hour, every: time.Hour})},
			[]int64{400, 600, 100, 900}, 1},
		"the first may be served": {&queue{
			knowledge: reported(&view{limit: 1000, free: 400, after: time.Hour, every: time.Hour})},
			[]int64{400, 600, 100, 900}, 3},
		"the limiter was changed": {&queue{stale: true,
			knowledge: reported(&view{limit: 1000, after: time.Hour, every: time.Hour})}, []int64{400, 600, 100, 900}, 3},
		"one that can never be served": {&queue{knowledge: reported(&view{limit: 500, free: 500})},
			[]int64{400, 600, 100, 900}, 4},
		"another that can never be served": {&queue{knowledge: reported(&view{limit: 400, free: 400, every: time.Hour})},
			[]int64{400, 600, 100, 900}, 3},
		"one that can never be served comes first": {&queue{
			knowledge: reported(&view{limit: 500, free: 400, after: time.Hour, every: time.Hour})}, []int64{600, 400, 100}, 3},
		"more come free while the call is under way": {&queue{
			knowledge: reported(&view{limit: 100, free: 100, every: 3 * time.Millisecond})}, slices.Repeat([]int64{100}, 9), 5},
		"no call asks for more than a grant": {&queue{}, []int64{1, MaxPermits - 1, 1}, 2},
		"a call carries so many":             {&queue{}, slices.Repeat([]int64{1}, MaxRequests+1), MaxRequests},
	} {
		t.Run(name, func(t *testing.T) {
			q := test.q
			for _, permits := range test.wants {
				q.add(waiterFor(permits))
			}
			q.fillBatch(shortestCall, false, cmp.Or(q.begins, time.Now()))
			var got []int64
			for _, r := range q.batch.Requests {
				assert.EqualValues(t, inFlight, r.state.Load())
				got = append(got, r.Permits)
			}
			assert.Equal(t, test.wants[:test.want], got)
		})
	}
}

// TestQueue_ForecastLags_WaiterAsksLater: unless a deadline is near.
func TestQueue_ForecastLags_WaiterAsksLater(t *testing.T) {
	const every, lag = 600 * time.Millisecond, 20 * time.Millisecond
	for name, test := range map[string]struct {
		lag, latency, timeout time.Duration // of the waiter
		behind                time.Duration // the timeout of another one
		others                int           // that wait between them
		want                  time.Duration
	}{
		"on time":                       {want: every},
		"later":                         {lag: lag, want: every + lag},
		"a deadline is far":             {lag: lag, timeout: every + 2*lag, want: every + lag},
		"a deadline is near":            {lag: lag, timeout: every + lag, want: every},
		"a deadline before the reply":   {lag: lag, latency: lag, timeout: every + 2*lag, want: every},
		"a deadline behind it":          {lag: lag, behind: every + 11*time.Millisecond, want: every},
		"a deadline behind all":         {lag: lag, behind: 3 * every, want: every + lag},
		"one in the next round":         {lag: lag, behind: 2*every + 2*time.Millisecond, want: every, others: 1},
		"a later one in the next round": {lag: lag, behind: 2*every + 2*lag, want: every + lag, others: 1},
	} {
		withServer(t, func(t *testing.T, f *fixture) {
			l := f.limiter(2, every)
			l.lag = test.lag
			f.RequireGranted(l, 2)
			began := time.Now()
			f.Latency.Store(int64(test.latency))
			wait := func(timeout time.Duration) {
				ok, err := l.TryAcquireWithin(t.Context(), 1, max(0, timeout-time.Since(began)))
				assert.NoError(t, err, name)
				assert.True(t, ok, name)
			}
			if test.behind > 0 {
				go func() {
					time.Sleep(time.Millisecond)
					for range test.others {
						go wait(0)
						time.Sleep(time.Millisecond)
					}
					wait(test.behind)
				}()
			}
			wait(test.timeout)
			assert.Equal(t, test.want+test.latency, time.Since(began), name)
			time.Sleep(3 * every)
		})
	}
}

// TestQueue_LimiterExpires_WaitersRenewIt: they ask before, although they are denied.
func TestQueue_LimiterExpires_WaitersRenewIt(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(1, 10*time.Second)
		l.renew = 3 * time.Second
		f.RequireGranted(l, 1)
		before := f.Scripts.Load()
		require.NoError(t, l.Acquire(t.Context(), 1))
		assert.Equal(t, before+5, f.Scripts.Load(), "calls at 0 s, 3 s, 6 s, 9 s and 10 s")
	})
}

// TestQueue_FreePermits_DoNotLag: only a waiter that has waited for permits asks later.
func TestQueue_FreePermits_DoNotLag(t *testing.T) {
	inQueue(t, 2, time.Second, func(q *line, l *fake) {
		l.lag = time.Hour
		q.Latency.Store(int64(trip))
		q.wait(l, "a", 1, 0)
		q.wait(l, "b", 1, 0) // during the call of a
		q.done.Wait()
		assert.Equal(t, []string{"a at 0.01s", "b at 0.02s"}, q.log)
	})
}

// TestQueue_PermitsReturnAtAnyTime_ShortDeadlinesCauseNoCalls: a queue of such permits calls often, and the reply would
// come after the deadline.
func TestQueue_PermitsReturnAtAnyTime_ShortDeadlinesCauseNoCalls(t *testing.T) {
	q := queueOf(waiterFor(1))
	q.knowledge, q.dueForNew = reported(anyTime{&view{limit: 1, after: time.Second}}), time.Time{}
	q.took = 20 * time.Millisecond
	w := waiterFor(1)
	w.since, w.deadline = q.begins, q.begins.Add(10*time.Millisecond)
	q.add(w)
	assert.Equal(t, freshEnough, q.dueForNew.Sub(q.begins))
}

// TestQueue_TimeOfACall_HasItsLateness: by a timer or a lag, since the permits were due or since the reply before.
func TestQueue_TimeOfACall_HasItsLateness(t *testing.T) {
	sent := time.Now()
	for _, test := range []struct{ sinceDue, sinceReply, want time.Duration }{
		{0, time.Second, 15 * time.Millisecond},
		{-time.Second, time.Second, 15 * time.Millisecond},
		{3 * time.Millisecond, time.Second, 18 * time.Millisecond},
		{time.Second, 2 * time.Millisecond, 17 * time.Millisecond},
	} {
		var times callTime
		q := &queue{due: sent.Add(-test.sinceDue), repliedAt: sent.Add(-test.sinceReply)}
		q.batch.Sent = sent
		q.applyReply(&times, sent.Add(15*time.Millisecond))
		assert.Equal(t, test.want, times.get(), "%+v", test)
	}
}
