package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// prefetched returns a limiter without a Redis, and its entry with prefetches.
func prefetched(prefetches ...Prefetch) (*Limiter, *entry) {
	l := named(New(Settings{Prefetch: time.Hour}), "name")
	l.CanPrefetch = true
	e := l.Engine.registry.lockEntry(l.ID)
	defer e.mu.Unlock()
	l.countDemand(e, 0)
	e.prefetches.active = prefetches
	return l, e
}

// sentNow is the outcome of a call that is sent now.
func sentNow() BatchResult { return BatchResult{knowledge: knowledge{Sent: time.Now()}} }

// TestPrefetch_TimerIsLate_IsNotUsed: a process that was stopped runs its callers first. The clock
// stands still, and the prefetch ends at this moment or one nanosecond later.
func TestPrefetch_TimerIsLate_IsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, left := range []time.Duration{0, 1} {
			l, e := prefetched(Prefetch{Lasts: time.Hour + left, unused: 2, sent: time.Now().Add(-time.Hour)})
			s := e.prefetches
			s.fetch = new(transfer)
			assert.Equal(t, left > 0, l.fromPrefetch(Ask{Permits: 1}, new(Result)))
			q := queueOf(&waiter{Request: Request{Ask: Ask{Permits: 1}}})
			assert.Equal(t, left > 0, s.serve(q) != nil)
			if left > 0 {
				assert.Zero(t, s.active[0].unused)
			}
		}
	})
}

// TestPrefetch_SeveralPrefetches_NumbersAreOfTheNewest, less what calls were granted since.
func TestPrefetch_SeveralPrefetches_NumbersAreOfTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		parts := []Decision{{Allowed: true, Limit: 1000, Remaining: 850, ResetAfter: time.Minute},
			{Allowed: true, Limit: 900, Remaining: 7, ResetAfter: time.Minute}}
		l, e := prefetched(
			Prefetch{Lasts: time.Hour, Limit: 1000, Free: 900, Reset: time.Minute, unused: 20,
				sent: now.Add(-10 * time.Second)},
			Prefetch{Lasts: time.Hour, Limit: 1000, Free: 850, Reset: time.Minute, Parts: parts, unused: 50,
				sent: now.Add(-time.Second)},
		)
		s := e.prefetches
		s.newest, s.free, s.taken, s.fetch = s.active[1], 848, 2, new(transfer)
		var answer Result
		require.True(t, l.fromPrefetch(Ask{Permits: 3, Detail: true}, &answer))
		assert.Equal(t, Decision{Allowed: true, Limit: 1000, Remaining: 848 + 17 + 50, ResetAfter: 59 * time.Second},
			answer.Decision)
		for left := int64(14 + 50); left >= 11+50; left -= 3 {
			require.True(t, l.fromPrefetch(Ask{Permits: 3, Detail: true, Each: true}, &answer))
			assert.Equal(t, []Decision{{Allowed: true, Limit: 1000, Remaining: 848 + left, ResetAfter: 59 * time.Second},
				{Allowed: true, Limit: 900, Remaining: 5 + left, ResetAfter: 59 * time.Second}}, answer.Parts)
		}
	})
}

// TestPrefetch_OnePartRefills_OtherHasNoMore: what is free in all parts grows with the one that has the fewest.
func TestPrefetch_OnePartRefills_OtherHasNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, e := prefetched()
		s := e.prefetches
		s.fetch = s.limiter.Engine.transfers.begin(l.DependsOn)
		store := func(b *Batch, free int64) {
			b.Sent, b.Forecast = time.Now(), &view{free: free}
			time.Sleep(time.Millisecond)
			s.store(b)
		}
		store(&Batch{Prefetch: Prefetch{Span: time.Hour, Lasts: time.Hour, Granted: 4,
			Parts: []Decision{{Limit: 10}, {Limit: 1000, Remaining: 500}}}}, 0)
		store(&Batch{BatchResult: BatchResult{Granted: 5}}, 5)
		assert.EqualValues(t, 500-5+4, s.parts(time.Now())[1].Remaining)
	})
}

// TestPrefetch_Demand_IsThatOfTheLastSpan: as far as two counts show.
func TestPrefetch_Demand_IsThatOfTheLastSpan(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		turned, later time.Duration // before and after now, when 100 more were requested
		demand        int64
	}{
		{5 * time.Millisecond, 0, 400},
		{15 * time.Millisecond, 0, 400},
		{15 * time.Millisecond, 5 * time.Millisecond, 250},
		{15 * time.Millisecond, 12 * time.Millisecond, 80},
		{15 * time.Millisecond, 20 * time.Millisecond, 0},
		{25 * time.Millisecond, 0, 100},
	} {
		s := &prefetchSet{span: 10 * time.Millisecond, demanded: 300, spanBegan: now.Add(-test.turned)}
		s.countDemand(now, 100)
		assert.Equal(t, test.demand, s.demand(now.Add(test.later)), "%+v", test)
	}
}

func TestPrefetch_RunsOut_NextIsFetchedBefore(t *testing.T) {
	const span = 100 * time.Millisecond
	now := time.Now()
	for _, test := range []struct {
		left  int64
		old   time.Duration
		fetch *transfer
		out   bool
	}{
		{left: 20, out: true}, // as many as are requested in two round trips
		{left: 21},
		{left: 500, old: 97 * time.Millisecond},
		{left: 500, old: 98 * time.Millisecond, out: true},
		{left: 1, fetch: new(transfer)},
	} {
		s := &prefetchSet{span: span, demanded: 1000, spanBegan: now, roundTrip: time.Millisecond, fetch: test.fetch}
		p := &Prefetch{Lasts: span, unused: test.left, sent: now.Add(-test.old)}
		assert.Equal(t, test.out, s.runsOut(p, now, p.remains(now)), "%+v", test)
	}
}

// TestPrefetch_CannotBeUsed_IsReturned: Flush waits for the end of that, and returns its error.
func TestPrefetch_CannotBeUsed_IsReturned(t *testing.T) {
	failed := errors.New("it hangs")
	for name, test := range map[string]struct {
		granted            int64
		lasts              time.Duration
		call, refund, want error
	}{
		"no prefetch arrives": {lasts: time.Hour},
		"the limiter changed": {granted: 5, lasts: time.Hour},
		"its refund fails":    {granted: 5, lasts: time.Hour, refund: failed, want: failed},
		"the call fails":      {granted: 5, lasts: time.Hour, call: failed, want: failed},
		"it is over already":  {granted: 5},
	} {
		t.Run(name, func(t *testing.T) {
			l, e := prefetched()
			s := e.prefetches
			s.demanded = 130
			b := &Batch{BatchResult: sentNow(), Requests: []*Request{{Ask: Ask{Permits: 30}}}}
			s.plan(b)
			require.Equal(t, int64(100), b.Prefetch.Permits)
			fetch := s.fetch
			if test.lasts > 0 {
				assert.Empty(t, s.revoke())
			}
			returned := int64(0)
			b.Prefetch.Granted, b.Prefetch.Lasts = test.granted, test.lasts
			b.Prefetch.Refund = func(_ context.Context, permits int64) error {
				assert.Equal(t, 1, len(l.Engine.transfers.all()), "it has not ended")
				returned = permits
				return test.refund
			}
			b.err = test.call
			s.store(b)
			<-fetch.done
			if test.call == nil {
				assert.Equal(t, test.granted, returned)
			} else {
				assert.Zero(t, returned)
			}
			assert.Equal(t, test.want, fetch.err)
			assert.Nil(t, s.fetch, "the next call may fetch a prefetch")
			assert.Zero(t, len(l.Engine.transfers.all()))
			assert.Empty(t, s.active)
		})
	}
}

// TestPrefetch_ArrivesWhileCallersWait_ServesThemFirst: a caller that arrives later is not served from
// it.
func TestPrefetch_ArrivesWhileCallersWait_ServesThemFirst(t *testing.T) {
	l, e := prefetched()
	s := e.prefetches
	s.fetch = s.limiter.Engine.transfers.begin(s.limiter.DependsOn)
	waiting := &waiter{Request: Request{Ask: Ask{Permits: 1}}, done: make(chan struct{}, 1)}
	q := queueOf(waiting)
	e.queue, e.calls = q, 1
	b := &Batch{BatchResult: sentNow(), Prefetch: Prefetch{Span: time.Hour, Granted: 2, Lasts: time.Hour}}
	l.Engine.hooked = true
	e.mu.Lock()
	s.store(b)
	l.endShared(e, b)
	assert.Len(t, q.woken, 1, "the queue is woken")
	assert.False(t, l.fromPrefetch(Ask{Permits: 1}, new(Result)), "behind a caller that waits")
	fetched := func() time.Duration {
		e.dispatching, e.calls, s.demanded = true, 1, 100
		e.collecting = append(e.collecting, new(Batch))
		return l.dispatch(e).Prefetch.Span
	}
	assert.Zero(t, fetched(), "by another call: free permits are for the waiters")

	assert.Equal(t, []*waiter{waiting}, s.serve(q))
	assert.Equal(t, []any{true, int64(1), FromPrefetch}, []any{waiting.Allowed, waiting.Granted, waiting.From})
	e.queue = nil
	assert.Equal(t, time.Hour, fetched())
	assert.True(t, l.fromPrefetch(Ask{Permits: 1}, new(Result)))
}

// TestChange_PrefetchInTransit_WaitsForIt: the change of another caller has revoked the prefetch, it has
// expired, or its call is in flight. Otherwise a Release would count its unused permits as used.
func TestChange_PrefetchInTransit_WaitsForIt(t *testing.T) {
	for name, depart := range map[string]func(l *Limiter, e *entry, p Prefetch){
		"another change": func(l *Limiter, e *entry, p Prefetch) {
			e.prefetches.active = append(e.prefetches.active, p)
			go change(context.Background(), l.Engine, l.ID)
		},
		"it has expired": func(l *Limiter, e *entry, p Prefetch) {
			p.sent = time.Now().Add(-p.Lasts)
			e.prefetches.active = append(e.prefetches.active, p)
			go l.expire(e, e.prefetches)
		},
		"it arrives": func(_ *Limiter, e *entry, p Prefetch) {
			b, s := &Batch{BatchResult: sentNow()}, e.prefetches
			s.demanded = 100
			s.plan(b)
			require.NotNil(t, s.fetch)
			time.AfterFunc(20*time.Millisecond, func() {
				b.Prefetch = p
				b.Prefetch.Granted, b.Prefetch.Span = p.unused, p.Lasts
				e.mu.Lock()
				defer e.mu.Unlock()
				s.store(b)
			})
		},
	} {
		runInBubble(t, name, func(t *testing.T) {
			l, e := prefetched()
			s := e.prefetches
			defer s.timer.Stop()
			returned := false
			depart(l, e, Prefetch{Lasts: time.Hour, Refund: func(context.Context, int64) error {
				time.Sleep(50 * time.Millisecond)
				returned = true
				return nil
			}, unused: 5, sent: time.Now()})
			time.Sleep(10 * time.Millisecond)
			_, err := ChangeLimiters(t.Context(), l.Engine, l.DependsOn, func(context.Context) (any, error) {
				assert.True(t, returned)
				e.mu.Lock()
				defer e.mu.Unlock()
				b := new(Batch)
				s.demanded = 100
				s.plan(b)
				assert.Zero(t, b.Prefetch.Span, "it would be a prefetch from before the change")
				return nil, nil
			})
			require.NoError(t, err)
			synctest.Wait() // the other change, too
			s.plan(new(Batch))
			assert.NotNil(t, s.fetch, "prefetches go on after it")
		})
	}
}

// TestChange_PrefetchCannotBeReturned_GoesOn: its slot moves for long.
func TestChange_PrefetchCannotBeReturned_GoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := named(New(Settings{Prefetch: time.Hour}), "a")
		s := &prefetchSet{limiter: l}
		s.returnUnused(&Prefetch{unused: 5, Refund: func(context.Context, int64) error {
			time.Sleep(time.Minute)
			return nil
		}}, nil)
		begin := time.Now()
		change(t.Context(), l.Engine, "b")
		assert.Zero(t, time.Since(begin), "it is no prefetch of that limiter")
		change(t.Context(), l.Engine, "a")
		assert.Equal(t, longTransfer, time.Since(begin))
		time.Sleep(time.Minute)
	})
}

// TestChange_PrefetchArrivesMeanwhile_IsReturned: it is from before the change.
func TestChange_PrefetchArrivesMeanwhile_IsReturned(t *testing.T) {
	l, e := prefetched()
	returned := int64(0)
	_, err := ChangeLimiters(t.Context(), l.Engine, l.DependsOn, func(context.Context) (any, error) {
		refund := func(_ context.Context, permits int64) error {
			returned = permits
			return nil
		}
		e.prefetches.active = []Prefetch{{Lasts: time.Hour, Refund: refund, unused: 5, sent: time.Now()}}
		return nil, nil
	})
	require.NoError(t, err)
	assert.EqualValues(t, 5, returned)
	assert.False(t, l.fromPrefetch(Ask{Permits: 1}, new(Result)))
}

// TestPrefetch_RepliesOutOfOrder_CountOnce: Redis computed the reply of a call before that of a newer prefetch, whose
// call ended first. The permits of the prefetch are free in the older reply, and do not count twice.
func TestPrefetch_RepliesOutOfOrder_CountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := prefetched()
		s := e.prefetches
		s.fetch = s.limiter.Engine.transfers.begin(s.limiter.DependsOn)
		older, prefetch := new(Batch), new(Batch)
		older.Sent = time.Now()
		time.Sleep(time.Millisecond)
		prefetch.Sent = time.Now()
		time.Sleep(time.Millisecond)
		prefetch.Prefetch = Prefetch{Span: time.Hour, Lasts: time.Hour, Granted: 400, Limit: 1000, Free: 500}
		older.Forecast, prefetch.Forecast = &view{free: 900}, &view{free: 500}
		older.Requests = []*Request{new(Request)}
		older.Requests[0].Decision = Decision{Limit: 1000, Remaining: 900}
		s.store(prefetch)
		s.store(older)
		result := older.Requests[0].Result
		s.addTo(&result, Ask{Detail: true})
		assert.EqualValues(t, 900, result.Remaining)
		ok, _ := s.take(Ask{Permits: 1, Detail: true}, &result)
		require.True(t, ok)
		assert.EqualValues(t, 899, result.Remaining)
		e.prefetches.timer.Stop()
	})
}

// TestPrefetch_RepliesPassEachOther_FreeIsNotRaised: a reply to a call that was sent before another reply may be
// older than that.
func TestPrefetch_RepliesPassEachOther_FreeIsNotRaised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := prefetched()
		s := e.prefetches
		defer s.timer.Stop()
		call := func(free int64) *Batch {
			time.Sleep(time.Millisecond)
			known := knowledge{Sent: time.Now(), Forecast: &view{free: free}}
			return &Batch{BatchResult: BatchResult{Granted: 1, knowledge: known}}
		}
		first, second, prefetch, last := call(900), call(899), call(500), call(499)
		prefetch.Prefetch = Prefetch{Span: time.Hour, Lasts: time.Hour, Granted: 398, Free: 500}
		time.Sleep(time.Millisecond)
		s.fetch = s.limiter.Engine.transfers.begin(s.limiter.DependsOn)
		for _, test := range []struct {
			reply *Batch
			free  int64
		}{{second, 899}, {first, 899}, {last, 499}, {prefetch, 500 - 3}} {
			s.store(test.reply)
			assert.Equal(t, test.free, s.free)
		}
		next := call(600)
		for free := int64(601); free < 610; free++ { // each call is sent before the reply to the one before
			after := call(free)
			time.Sleep(time.Millisecond)
			s.store(next)
			next = after
		}
		assert.EqualValues(t, 607, s.free, "the last reply may be older than the one before")
		assert.Len(t, s.replies, 2)
	})
}

// TestPrefetch_SentInOneMoment_IsOfOneCall: Redis may have granted the prefetch after the other call.
func TestPrefetch_SentInOneMoment_IsOfOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := prefetched()
		s := e.prefetches
		defer s.timer.Stop()
		s.fetch = s.limiter.Engine.transfers.begin(s.limiter.DependsOn)
		call := func() *Batch { return &Batch{BatchResult: sentNow(), Requests: []*Request{new(Request)}} }
		other, prefetch := call(), call()
		prefetch.Prefetch = Prefetch{Span: time.Hour, Lasts: time.Hour, Granted: 40, Free: 50}
		time.Sleep(time.Millisecond)
		s.store(prefetch)
		s.store(other)
		for b, remaining := range map[*Batch]int64{other: 50, prefetch: 50 + 40} {
			r := b.Requests[0].Result
			r.Remaining, r.Limit = 50, 1000
			s.addTo(&r, Ask{Detail: true})
			assert.Equal(t, remaining, r.Remaining)
		}
	})
}

// TestPrefetch_ReplyWithoutNumbers_DoesNotLowerFree: what was known before the reply to a TryAcquire beside the
// prefetch does not count as newer than it was.
func TestPrefetch_ReplyWithoutNumbers_DoesNotLowerFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := prefetched()
		s := e.prefetches
		defer s.timer.Stop()
		s.fetch = s.limiter.Engine.transfers.begin(s.limiter.DependsOn)
		beside, prefetch := &Batch{BatchResult: sentNow()}, &Batch{BatchResult: sentNow()}
		beside.Granted, prefetch.Granted = 1, 1
		prefetch.Prefetch = Prefetch{Span: time.Hour, Lasts: time.Hour, Granted: 40, Limit: 1000, Free: 500}
		time.Sleep(time.Millisecond)
		s.store(beside) // the first reply of the process
		time.Sleep(time.Millisecond)
		s.store(prefetch)
		var result Result
		ok, _ := s.take(Ask{Permits: 1, Detail: true}, &result)
		require.True(t, ok)
		assert.EqualValues(t, 500-1+39, result.Remaining)
	})
}
