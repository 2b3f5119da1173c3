package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// The forecast of a queue follows from the last reply and from the callers ahead alone.

func waiterFor(permits int64) *waiter { return &waiter{Request: Request{Ask: Ask{Permits: permits}}} }

func TestQueue_Deadlines_MissedOnesAreFound(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		free, permits int64
		ahead         int64
		timeout       time.Duration
		want          time.Duration
		change        func(q *queue, v *view)
	}{
		"at the last moment":             {permits: 3, timeout: 2 * time.Second},
		"a moment too late":              {permits: 3, timeout: 2*time.Second - 1, want: 2 * time.Second},
		"behind others":                  {permits: 1, ahead: 3, timeout: time.Second, want: 2 * time.Second},
		"free permits are not waited":    {free: 4, permits: 4, timeout: 1},
		"its time is over":               {free: 4, permits: 4, timeout: -1, want: 1},
		"more intervals than a Duration": {permits: 1, ahead: 1 << 62, timeout: time.Hour, want: Never},
		"and known for a while": {permits: 1, ahead: 1 << 62, timeout: time.Hour, want: Never,
			change: func(q *queue, _ *view) { q.forecastAt = now.Add(-time.Second) }},
		"nothing is known of the limit": {permits: 1, ahead: 1000, timeout: 1,
			change: func(q *queue, _ *view) { q.forecast = nil }},
		"known for a while, and more": {permits: 3, timeout: time.Second - 1, want: time.Second,
			change: func(q *queue, _ *view) { q.forecastAt = now.Add(-time.Second) }},
		"over, and what was known past": {permits: 3, timeout: -time.Second, want: 1,
			change: func(q *queue, _ *view) { q.forecastAt = now.Add(-2 * time.Second) }},
	} {
		t.Run(name, func(t *testing.T) {
			v := &view{limit: 10, free: test.free, after: 2 * time.Second, every: 10 * time.Second}
			q := &queue{replied: true, forecast: v, forecastAt: now}
			if test.change != nil {
				test.change(q, v)
			}
			w := waiterFor(test.permits)
			w.deadline = now.Add(test.timeout)
			assert.Equal(t, test.want, q.missedBy(w, test.ahead, now))
			w.deadline = time.Time{}
			assert.Zero(t, q.missedBy(w, test.ahead, now), "a caller without a deadline is never late")
		})
	}
}

// TestQueue_Call_CarriesThoseThatCouldBeServed: and one more, for which the reply reports the wait.
func TestQueue_Call_CarriesThoseThatCouldBeServed(t *testing.T) {
	for name, test := range map[string]struct {
		q     queue
		wants []int64
		want  int // so many of them leave
	}{
		"nothing is known": {queue{}, []int64{400, 600, 100, 900}, 4},
		"a limit": {queue{replied: true, forecast: &view{limit: 1000, free: 1000}},
			[]int64{400, 600, 100, 900}, 3},
		"the first has to wait": {queue{replied: true,
			forecast: &view{limit: 1000, free: 300, after: time.Hour, every: time.Hour}}, []int64{400, 600, 100, 900}, 1},
		"the first may be served": {queue{replied: true,
			forecast: &view{limit: 1000, free: 400, after: time.Hour, every: time.Hour}}, []int64{400, 600, 100, 900}, 3},
		"the limiter was changed": {queue{replied: true, fresh: freshness{changed: true},
			forecast: &view{limit: 1000, after: time.Hour, every: time.Hour}}, []int64{400, 600, 100, 900}, 3},
		"one that can never be served": {queue{replied: true, forecast: &view{limit: 500, free: 500}},
			[]int64{400, 600, 100, 900}, 4},
		"another that can never be served": {queue{replied: true, forecast: &view{limit: 400, free: 400}},
			[]int64{400, 600, 100, 900}, 3},
		"one that can never be served comes first": {queue{replied: true,
			forecast: &view{limit: 500, free: 400, after: time.Hour, every: time.Hour}}, []int64{600, 400, 100}, 3},
		"no call asks for more than a grant": {queue{}, []int64{1, MaxPermits - 1, 1}, 2},
		"a call carries so many":             {queue{}, slices.Repeat([]int64{1}, MaxRequests+1), MaxRequests},
	} {
		t.Run(name, func(t *testing.T) {
			q := &test.q
			q.forecastAt = time.Now()
			for _, permits := range test.wants {
				q.waiters.push(waiterFor(permits))
			}
			q.fillBatch()
			var got []int64
			for _, r := range q.batch.Requests {
				assert.Equal(t, inFlight, r.state)
				got = append(got, r.Permits)
			}
			assert.Equal(t, test.wants[:test.want], got)
			assert.Len(t, q.inCall, len(got))
		})
	}
}
