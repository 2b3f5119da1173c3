package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestBatch_Requests_AreBounded: callers that left do not count.
func TestBatch_Requests_AreBounded(t *testing.T) {
	g, n := freshNames()
	l := named(g, "a")
	sums := func(e *entry) (requests, live []int, permits []int64) {
		for b := e.first; b != nil; b = b.next {
			requests, live, permits = append(requests, len(b.Requests)), append(live, b.live), append(permits, b.permits)
		}
		return requests, live, permits
	}
	collect := func(e *entry, wants ...int64) (made []*Request) {
		for _, permits := range wants {
			r := &Request{Ask: Ask{Permits: permits}}
			b := l.addRequest(e, r)
			assert.Same(t, b, r.batch)
			made = append(made, r)
		}
		return made
	}
	abandon := func(e *entry, requests ...*Request) {
		e.mu.Unlock()
		for _, r := range requests {
			assert.True(t, g.abandon(e, r))
			assert.Equal(t, abandoned, r.state)
		}
		e.mu.Lock()
	}

	e := n.lockEntry(l)
	e.dispatching = true
	many := make([]int64, MaxRequests+1)
	for i := range many {
		many[i] = 2
	}
	made := collect(e, many...)
	requests, live, permits := sums(e)
	assert.Equal(t, []int{MaxRequests, 1}, requests)
	assert.Equal(t, []int{MaxRequests, 1}, live)
	assert.Equal(t, []int64{2 * MaxRequests, 2}, permits)

	// Half of them and one more go: so do their requests.
	abandon(e, made[:MaxRequests/2+1]...)
	requests, live, permits = sums(e)
	assert.Equal(t, MaxRequests/2, requests[0])
	assert.Same(t, made[MaxRequests-1], e.first.Requests[MaxRequests/2-1])
	assert.Equal(t, []int{MaxRequests/2 - 1, 1}, live)
	assert.Equal(t, []int64{MaxRequests - 2, 2}, permits)

	// Batches without callers are empty. New callers join the last one.
	abandon(e, made[MaxRequests])
	abandon(e, made[MaxRequests/2+1:MaxRequests]...)
	abandon(e, collect(e, 3)...)
	requests, live, permits = sums(e)
	assert.Equal(t, []int{0, 0}, requests)
	assert.Equal(t, []int{0, 0}, live)
	assert.Equal(t, []int64{0, 0}, permits)
	assert.Zero(t, cap(e.first.Requests), "memory of callers that have left")
	e.takeFirst()

	// No call of several requests is for more permits than a grant can have.
	collect(e, 1, MaxPermits-1, 1, MaxPermits, 1)
	_, _, permits = sums(e)
	assert.Equal(t, []int64{MaxPermits, 1, MaxPermits, 1}, permits)
	b := e.takeFirst()
	assert.Len(t, b.Requests, 2)
	assert.Equal(t, inFlight, b.Requests[0].state)

	// A batch that is used again is as good as new.
	b.Forecast, b.Denied, b.Granted, b.Lost, b.answered = new(view), 3, 4, []*Request{{}}, make(chan struct{})
	b.clear()
	assert.Equal(t, &Batch{Requests: []*Request{}, Lost: []*Request{}, callers: 2}, b)
	for e.first != nil {
		e.takeFirst()
	}
	assert.Nil(t, e.last)
	n.unlockEntry(e)
	assert.Zero(t, n.live.Load())
}

func TestCoalesce_SlowCalls_MoreAreInFlight(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(1<<40, time.Hour)
		calls := func() int64 {
			before := f.Scripts.Load()
			f.Latency.Store(int64(10 * time.Millisecond))
			_, errs := redistest.Crowd(40, func(int) (Result, error) {
				return l.Try(t.Context(), Ask{Permits: 1, Detail: true})
			})
			require.Equal(t, make([]error, 40), errs)
			return f.Scripts.Load() - before
		}
		assert.EqualValues(t, fastCalls+1, calls())
		assert.EqualValues(t, maxCalls+1, calls(), "the last one was slow")
		assert.EqualValues(t, maxCalls+1, calls())
		f.Latency.Store(0)
		f.RequireGranted(l, 1)
		assert.EqualValues(t, fastCalls+1, calls(), "the last one was fast")
		f.Latency.Store(int64(slowCall))
		f.RequireGranted(l, 1)
		assert.EqualValues(t, maxCalls+1, calls(), "the last one was just slow")
	})
}

// batchOf returns a batch of requests.
func batchOf(asks ...Ask) *Batch {
	b := new(Batch)
	for _, ask := range asks {
		b.Requests = append(b.Requests, &Request{Ask: ask})
	}
	return b
}

func TestAnswer_NegativeRest_IsZero(t *testing.T) {
	b := batchOf(Ask{Permits: 2}, Ask{Permits: 1})
	b.GrantAll(-2, Answer{Limit: 10})
	for i, r := range b.Requests {
		assert.Equal(t, Answer{Allowed: true, Limit: 10}, r.Answer, i)
	}
}

// TestBatch_RequestsUpTo_CountTheirMost: the most that a call can take bounds it. The answer sets
// what each was granted.
func TestBatch_RequestsUpTo_CountTheirMost(t *testing.T) {
	b := batchOf(Ask{Permits: 1}, Ask{Permits: 1, UpTo: 1}, Ask{Permits: 1, UpTo: 5}, Ask{Permits: 1, UpTo: 5},
		Ask{Permits: 1, UpTo: 7})
	total, _ := b.Wants()
	assert.EqualValues(t, 19, total)
	assert.Equal(t, "1*1 1*1 ~5*2 ~7*1", Runs(b.Requests))
	b.GrantAll(2, Answer{Limit: 30})
	r := b.Requests[2]
	assert.EqualValues(t, 5, r.Granted)
	assert.EqualValues(t, 2+5+7, r.Remaining)
}

func TestCoalesce_CallersLeftBeforeTheirCall_NothingIsSent(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(10, time.Minute)
		g := l.Engine
		e, r := g.registry.lockEntry(&l.Limiter), &Request{Ask: Ask{Permits: 1}}
		l.addRequest(e, r)
		require.True(t, g.reserveCall(e))
		e.mu.Unlock()
		require.True(t, g.abandon(e, r))
		before := f.Scripts.Load()
		l.sendBatches(t.Context(), e, false)
		assert.Equal(t, before, f.Scripts.Load())
		assert.True(t, g.Idle())
	})
}
