package engine

import (
	"context"
	"fmt"
	"slices"
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
	e := n.lockEntry(l.ID)
	e.dispatching = true
	collect := func(wants ...int64) (made []*Request) {
		for _, permits := range wants {
			r := &Request{Ask: Ask{Permits: permits}}
			assert.Same(t, l.addRequest(e, r), r.batch)
			made = append(made, r)
		}
		return made
	}
	abandon := func(requests ...*Request) {
		e.mu.Unlock()
		for _, r := range requests {
			assert.True(t, abandon(e, r))
			assert.EqualValues(t, abandoned, r.state.Load())
		}
		e.mu.Lock()
	}
	holds := func(want ...[2]int64) { // requests and permits of each batch
		t.Helper()
		var got [][2]int64
		for _, b := range e.collecting {
			got = append(got, [2]int64{int64(len(b.Requests)), b.permits})
		}
		assert.Equal(t, want, got)
	}

	made := collect(slices.Repeat([]int64{2}, MaxRequests+1)...)
	holds([2]int64{MaxRequests, 2 * MaxRequests}, [2]int64{1, 2})
	abandon(made[1 : MaxRequests-1]...)
	holds([2]int64{2, 4}, [2]int64{1, 2})
	assert.Equal(t, []*Request{made[0], made[MaxRequests-1]}, e.collecting[0].Requests)
	// New callers join the last batch.
	abandon(made[0], made[MaxRequests-1], made[MaxRequests])
	abandon(collect(3)...)
	holds([2]int64{}, [2]int64{})
	e.takeFirst()
	// No call of several requests is for more permits than a grant can have.
	collect(1, MaxPermits-1, 1, MaxPermits, 1)
	holds([2]int64{2, MaxPermits}, [2]int64{1, 1}, [2]int64{1, MaxPermits}, [2]int64{1, 1})
	b := e.takeFirst()
	assert.Len(t, b.Requests, 2)
	assert.EqualValues(t, inFlight, b.Requests[0].state.Load())

	// A batch that is used again is as good as new.
	b.Forecast, b.Denied, b.Granted, b.Lost, b.done = new(view), 3, 4, []*Request{{}}, make(chan struct{})
	b.wakeShared()
	want := &Batch{Requests: []*Request{}, BatchResult: BatchResult{Lost: []*Request{}}}
	want.callers.Store(2)
	assert.Equal(t, want, b)
	for len(e.collecting) > 0 {
		e.takeFirst()
	}
	n.unlockEntry(e)
	assert.Empty(t, n.all())
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
		const alone = 1 // the first caller, if the call before had one
		assert.EqualValues(t, alone+fastCalls+1, calls())
		assert.EqualValues(t, maxCalls+1, calls(), "the last one was slow")
		assert.EqualValues(t, maxCalls+1, calls())
		f.Latency.Store(0)
		f.RequireGranted(l, 1)
		assert.EqualValues(t, alone+fastCalls+1, calls(), "the last one was fast")
		f.Latency.Store(int64(slowCall))
		f.RequireGranted(l, 1)
		assert.EqualValues(t, alone+maxCalls+1, calls(), "the last one was just slow")
	})
}

// TestBatch_RequestsUpTo_CountTheirMost: the most that a call can take bounds it. The answer sets
// what each was granted.
func TestBatch_RequestsUpTo_CountTheirMost(t *testing.T) {
	b := new(Batch)
	for _, upTo := range []int64{0, 1, 5, 5, 7} {
		b.Requests = append(b.Requests, &Request{Ask: Ask{Permits: 1, UpTo: upTo}})
	}
	total, _ := b.Wants()
	assert.EqualValues(t, 19, total)
	assert.Equal(t, "1*1 1*1 ~5*2 ~7*1", Runs(b.Requests))
	for part, want := range []bool{false, true, true, true, true, true, false} {
		letters, _, ok := b.readLetters(fmt.Sprint("ggpnn ", part))
		assert.Equal(t, want, ok && letters == "ggpnn")
	}
	b.GrantAll(2)
	r := b.Requests[2]
	assert.True(t, r.Allowed)
	assert.EqualValues(t, 5, r.Granted)
	assert.EqualValues(t, 2+5+7, r.Remaining)
	b.GrantAll(-2)
	assert.Zero(t, b.Requests[4].Remaining, "a negative rest")
}

// TestTryAcquire_CallsInFlight_CallersShareTheNext: each caller gets the answer of its place.
func TestTryAcquire_CallsInFlight_CallersShareTheNext(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(100, time.Minute)
		other := open(l.Engine, "limiter", 100, time.Minute)
		before := f.Scripts.Load()
		f.Latency.Store(int64(10 * time.Millisecond))
		answers, errs := redistest.Crowd(150, func(i int) (Result, error) {
			if i%2 == 0 {
				return other.Take(t.Context(), 1)
			}
			return l.Take(t.Context(), 1)
		})
		for i := range answers {
			require.NoError(t, errs[i])
			assert.Equal(t, i < 100, answers[i].Allowed, "caller %d", i)
			assert.EqualValues(t, max(0, 99-i), answers[i].Remaining, "caller %d", i)
			assert.EqualValues(t, 100, answers[i].Limit)
		}
		assert.EqualValues(t, 4, f.Scripts.Load()-before,
			"script calls: one of the first caller, two at once, and one for all other callers")
		f.idle(l)
	})
}

func TestTryAcquire_CallOfACaller_AnswersItBeforeTheNextCall(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(100, time.Hour)
		f.Latency.Store(int64(10 * time.Millisecond))
		start := time.Now()
		took, errs := redistest.Crowd(5, func(int) (time.Duration, error) {
			_, err := l.TryAcquire(context.Background(), 1)
			return time.Since(start), err
		})
		require.Equal(t, make([]error, 5), errs)
		assert.Equal(t, 10*time.Millisecond, took[0])
		for _, later := range took[1:] {
			assert.GreaterOrEqual(t, later, 20*time.Millisecond)
		}
	})
}

// TestBatch_Full_LeavesBeforeLaterOnes: a caller that arrives later may dispatch a call.
func TestBatch_Full_LeavesBeforeLaterOnes(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(MaxPermits, time.Hour)
		f.Latency.Store(int64(10 * time.Millisecond))
		permits := []int64{1, 1, MaxPermits, MaxPermits, MaxPermits, MaxPermits, 2, 2, 2} // a batch for each MaxPermits
		answers, errs := redistest.Crowd(len(permits), func(i int) (bool, error) {
			if permits[i] == 2 {
				time.Sleep(15 * time.Millisecond) // one call was slow, so more may be in flight
			}
			return l.TryAcquire(context.Background(), permits[i])
		})
		require.Equal(t, make([]error, len(permits)), errs)
		assert.Equal(t, []bool{true, true, false, false, false, false, true, true, true}, answers)
	})
}
