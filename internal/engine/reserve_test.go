package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reserving is a fake whose waiters make reservations for a second later.
type reserving struct {
	*fake
	refunds atomic.Int64 // requests of which the permits were returned
}

func (l *reserving) Answer(b *Batch, reply rueidis.RedisMessage) (again bool, err error) {
	again, err = l.fake.Answer(b, reply)
	for _, r := range b.Requests {
		r.At = time.Now().Add(time.Second)
	}
	return again, err
}

func (l *reserving) Refund(b *Batch) func(context.Context) {
	l.refunds.Add(int64(len(b.Lost)))
	return func(context.Context) {}
}

// TestReserve_CallerLeaves_IsReturnedOnce: during the call, or while it waits for the time of its
// reservation.
func TestReserve_CallerLeaves_IsReturnedOnce(t *testing.T) {
	for name, after := range map[string]time.Duration{
		"during the call": 5 * time.Millisecond, "before its time": 500 * time.Millisecond,
	} {
		runWithServer(t, name, func(t *testing.T, f *fixture) {
			l := &reserving{fake: f.limiter(10, time.Hour)}
			l.Protocol, l.Ahead, l.Most = l, time.Second, MaxRequests
			l.Only = func(int64) time.Duration { return 0 }
			f.Latency.Store(int64(10 * time.Millisecond))
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			require.ErrorIs(t, l.Acquire(ctx, 1), context.DeadlineExceeded)
			require.NoError(t, l.Engine.Flush(t.Context()))
			time.Sleep(time.Second)
			assert.EqualValues(t, 1, l.refunds.Load())
			f.idle(l.fake)
		})
	}
}

// TestReserve_PermitsFreeAtOnce_AreInheritedRightAfterTheCall: later, others have become free, and the
// next waiter would use them at the same time.
func TestReserve_PermitsFreeAtOnce_AreInheritedRightAfterTheCall(t *testing.T) {
	waits := func(after time.Duration) *waiter {
		w := &waiter{done: make(chan struct{}, 1)}
		w.Permits, w.Allowed, w.state = 1, true, answered
		if after > 0 {
			w.At = time.Now().Add(after)
		}
		return w
	}
	leaves := func(w *waiter) *waiter {
		w.left, w.state = true, abandoned
		return w
	}
	// inherited is the place that the next waiter gets of the reservations of a call, once all callers
	// of the call have left. It is -1 for none, and 0 for permits that were free at once. The first
	// waiter wants so many permits at first, and then 1.
	inherited := func(permits int64, called ...*waiter) int {
		e, q := new(entry), new(queue)
		new(Limiter).hold(e, called)
		heir := &waiter{done: make(chan struct{}, 1)}
		heir.Permits = permits
		q.waiters.push(heir)
		q.inherit(&e.held)
		for _, w := range called {
			w.left = true
		}
		if heir.Permits = 1; heir.state == queued {
			q.inherit(&e.held)
		}
		switch {
		case heir.state != answered:
			return -1
		case heir.At.IsZero():
			return 0
		}
		return 1
	}
	assert.Equal(t, 0, inherited(1, leaves(waits(0))), "right after the call")
	assert.Equal(t, -1, inherited(2, leaves(waits(0))), "the first waiter wants more")
	assert.Equal(t, 1, inherited(1, leaves(waits(0)), waits(time.Second)), "a caller behind it waited")
	assert.Equal(t, 0, inherited(1, waits(time.Second), leaves(waits(0))), "it is the last one")
}
