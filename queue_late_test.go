package rratelimiter

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What a queue says of the times to come follows from what the last call told and who stands ahead, and from nothing else.

func TestWhenPermitsAreFreeAtTheEarliest(t *testing.T) {
	at := time.Now()
	// The permits of a return include those before it.
	returns := []returning{{2 * second, 3}, {5 * second, 10}}
	for _, test := range []struct {
		free, permits int64
		returns       []returning
		want          time.Duration
	}{
		{10, 10, nil, 0},
		{4, 4, returns, 0},
		{4, 5, returns, 2 * second},
		{0, 3, returns, 2 * second},
		{0, 4, returns, 5 * second},
		{0, 10, returns, 5 * second},
		{-2, 1, returns, 2 * second}, // more are taken than the rate
		{-2, 2, returns, 5 * second},
		{0, 20, returns, 5 * second}, // no more than a page of returns is known
		{0, 1, nil, 0},
	} {
		q := &queue{known: true, rate: 10, free: test.free, returns: test.returns, at: at}
		assert.Equal(t, test.want, q.servable(test.permits).Sub(at), "%d permits, %d free, %v", test.permits, test.free, test.returns)
	}
}

func TestWhoIsTooLate(t *testing.T) {
	now := time.Now()
	const never = time.Duration(math.MaxInt64)
	for name, test := range map[string]struct {
		free, permits int64
		ahead         total
		timeout       time.Duration
		want          time.Duration
		change        func(q *queue)
	}{
		"at the last moment":            {permits: 3, timeout: 2 * second},
		"a moment too late":             {permits: 3, timeout: 2*second - 1, want: 2 * second},
		"one more permit":               {permits: 4, timeout: 4 * second, want: 5 * second},
		"behind others":                 {permits: 1, ahead: total{0, 3}, timeout: 4 * second, want: 5 * second},
		"all that a rate has":           {permits: 4, ahead: total{0, 6}, timeout: 5 * second},
		"the next rate":                 {permits: 4, ahead: total{0, 7}, timeout: 12*second - 1, want: 12 * second},
		"the next rate, in time":        {permits: 4, ahead: total{0, 7}, timeout: 12 * second},
		"three rates":                   {permits: 5, ahead: total{0, 20}, timeout: 24 * second, want: 25 * second},
		"free permits are not waited":   {free: 4, permits: 4, timeout: 1},
		"its time is over":              {free: 4, permits: 4, timeout: -1, want: 1},
		"so often that nobody lives":    {permits: 1, ahead: total{10, 0}, timeout: time.Hour, want: never},
		"as often as a number counts":   {permits: 1, ahead: total{9, 0}, timeout: time.Hour, want: never},
		"a time that overflows":         {permits: 1, ahead: total{0, 20}, timeout: time.Hour, want: never, change: func(q *queue) { q.every = 1 << 62 }},
		"a time that overflows to 0":    {permits: 1, ahead: total{0, 40}, timeout: time.Hour, want: never, change: func(q *queue) { q.every = 1 << 62 }},
		"a time that just overflows":    {permits: 1, ahead: total{0, 10}, timeout: time.Hour, want: never, change: func(q *queue) { q.every = never - second }},
		"a time that does not":          {permits: 1, ahead: total{0, 10}, timeout: time.Hour, want: never - 2*second, change: func(q *queue) { q.every = never - 4*second }},
		"nothing is known of the rate":  {permits: 1, ahead: total{0, 1000}, timeout: 1, change: func(q *queue) { q.rate = 0 }},
		"known for a while":             {permits: 3, timeout: second, change: func(q *queue) { q.at = now.Add(-second) }},
		"known for a while, and more":   {permits: 3, timeout: second - 1, want: second, change: func(q *queue) { q.at = now.Add(-second) }},
		"over, and what was known past": {permits: 3, timeout: -second, want: 1, change: func(q *queue) { q.at = now.Add(-2 * second) }},
	} {
		t.Run(name, func(t *testing.T) {
			q := &queue{known: true, rate: 10, every: 10 * second, free: test.free, returns: []returning{{2 * second, 3}, {5 * second, 10}}, at: now}
			if test.change != nil {
				test.change(q)
			}
			w := &waiter{request: request{permits: test.permits}, deadline: now.Add(test.timeout)}
			assert.Equal(t, test.want, q.late(w, test.ahead, now))
			w.deadline = time.Time{}
			assert.Zero(t, q.late(w, test.ahead, now), "who has no deadline is never late")
		})
	}
}

func TestWhomTheQueueWouldRefuse(t *testing.T) {
	now := time.Now()
	q := &queue{known: true, rate: 10, every: 10 * second, returns: []returning{{5 * second, 10}}, at: now}
	for permits, want := range map[int64]bool{1: false, 10: false, 11: true} {
		assert.Equal(t, want, q.refuses(&waiter{request: request{permits: permits}}, total{}, now), permits)
	}
	short := &waiter{request: request{permits: 1}, deadline: now.Add(second)}
	assert.True(t, q.refuses(short, total{}, now))
	q.rate = 0 // a call that failed told none
	assert.False(t, q.refuses(&waiter{request: request{permits: 11}}, total{}, now))
}

// What a call carries: as many as the rate could serve, and one more that the waits are told of.
func TestWhoLeavesWithACall(t *testing.T) {
	for name, test := range map[string]struct {
		q    queue
		want []int64 // of 4, 6, 1 and 9 permits
	}{
		"nothing is known":             {queue{}, []int64{4, 6, 1, 9}},
		"a rate":                       {queue{known: true, rate: 10, free: 10}, []int64{4, 6, 1}},
		"the first has to wait":        {queue{known: true, rate: 10, free: 3, returns: []returning{{time.Hour, 7}}}, []int64{4}},
		"the first may be served":      {queue{known: true, rate: 10, free: 4, returns: []returning{{time.Hour, 6}}}, []int64{4, 6, 1}},
		"something has changed":        {queue{known: true, ask: true, rate: 10, returns: []returning{{time.Hour, 10}}}, []int64{4, 6, 1}},
		"who can never be served":      {queue{known: true, rate: 5, free: 5}, []int64{4, 6, 1, 9}},
		"who can never be served, too": {queue{known: true, rate: 4, free: 4}, []int64{4, 6, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			q := &test.q
			q.at = time.Now()
			for _, permits := range []int64{4, 6, 1, 9} {
				q.waiters.push(&waiter{request: request{permits: permits}})
			}
			q.leave()
			var got []int64
			for _, r := range q.batch.requests {
				assert.Equal(t, inFlight, r.state)
				got = append(got, r.permits)
			}
			assert.Equal(t, test.want, got)
			assert.Len(t, q.taken, len(got))
		})
	}
	t.Run("no call adds up more than 2^53", func(t *testing.T) {
		q := new(queue)
		for _, permits := range []int64{1, maxPermits - 1, 1} {
			q.waiters.push(&waiter{request: request{permits: permits}})
		}
		q.leave()
		assert.Len(t, q.batch.requests, 2)
	})
}
