package door

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// While Redis hangs, each call that asks it has its deadline, one at a time asks, and the others have their answer at once. The
// first answer ends it for all.
func TestAnOutageCostsFewRequestsTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, heard := new(redis), new(told)
		g := New(Open, patience, heard.changed)
		q := Request{Limiter: r, Permits: 1}
		require.Equal(t, Granted, g.Ask(t.Context(), q).Result)
		time.Sleep(time.Second)
		r.hangs.Store(true)

		begin := time.Now()
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() { assert.Equal(t, FailedOpen, g.Ask(t.Context(), q).Result) })
		}
		callers.Wait()
		assert.Equal(t, patience, time.Since(begin), "all that came before anything was known had the deadline")
		assert.Equal(t, []string{"false context deadline exceeded"}, heard.news)

		before, waited := r.asked.Load(), atomic.Int64{}
		for range 1000 { // for ten seconds
			callers.Go(func() {
				begin := time.Now()
				assert.Equal(t, FailedOpen, g.Ask(t.Context(), q).Result)
				if since := time.Since(begin); since > 0 {
					waited.Add(1)
					assert.Equal(t, patience, since)
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		callers.Wait()
		assert.InDelta(t, 100, r.asked.Load()-before, 10, "one in each deadline")
		assert.Equal(t, r.asked.Load()-before, waited.Load())
		assert.Len(t, heard.news, 1)

		r.hangs.Store(false)
		time.Sleep(patience)
		assert.Equal(t, Granted, g.Ask(t.Context(), q).Result)
		assert.Equal(t, Granted, g.Ask(t.Context(), q).Result)
		assert.Equal(t, []string{"false context deadline exceeded", "true <nil>"}, heard.news)
	})
}

// One at a time asks, also where a limiter of another kind does not end with its context.
func TestOneAtATimeAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Closed, patience, nil)
		var asked atomic.Int64
		slow := takes(func(context.Context) (rratelimiter.Decision, error) {
			asked.Add(1)
			time.Sleep(time.Second)
			return rratelimiter.Decision{}, errRefused
		})
		q := Request{Limiter: slow, Permits: 1}
		g.Ask(t.Context(), q)
		go g.Ask(t.Context(), q)
		for range 9 {
			time.Sleep(patience)
			g.Ask(t.Context(), q)
		}
		assert.EqualValues(t, 2, asked.Load())
		time.Sleep(time.Second) // the last one ends
	})
}

// What refuses at once is asked no more often.
func TestARefusedConnectionIsTriedOnceADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(redis)
		r.refuses.Store(true)
		g := New(Closed, patience, nil)
		for range 1000 {
			assert.Equal(t, FailedClosed, g.Ask(t.Context(), Request{Limiter: r, Permits: 1}).Result)
			time.Sleep(time.Millisecond)
		}
		assert.InDelta(t, 11, r.asked.Load(), 1)
	})
}

// One slow call among many that are answered, a shard of a cluster that fails for instance, is no outage.
func TestOneFailureAmongAnswersIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		well, ill, heard := new(redis), new(redis), new(told)
		ill.hangs.Store(true)
		g := New(Closed, patience, heard.changed)
		for range 100 {
			var pair sync.WaitGroup
			pair.Go(func() {
				assert.Equal(t, FailedClosed, g.Ask(t.Context(), Request{Limiter: ill, Permits: 1}).Result)
			})
			pair.Go(func() {
				time.Sleep(patience / 2)
				assert.Equal(t, Granted, g.Ask(t.Context(), Request{Limiter: well, Permits: 1}).Result)
			})
			pair.Wait()
		}
		assert.Empty(t, heard.news)
	})
}

// A denial from a Client's memory holds, but does not say that Redis is back; a look at Redis does.
func TestADenialFromMemoryEndsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, heard := new(redis), new(told)
		g := New(Open, patience, heard.changed)
		q := Request{Limiter: r, Permits: 1}
		r.refuses.Store(true)
		require.Equal(t, FailedOpen, g.Ask(t.Context(), q).Result)
		r.denies.Store(true)
		for range 3 {
			time.Sleep(patience)
			assert.Equal(t, Refused, g.Ask(t.Context(), q).Result, "it holds")
			assert.Equal(t, FailedOpen, g.Ask(t.Context(), q).Result, "Redis is down still")
		}
		assert.Len(t, heard.news, 1)
		r.refuses.Store(false)
		time.Sleep(patience)
		assert.Equal(t, Refused, g.Ask(t.Context(), q).Result)
		assert.Equal(t, []string{"false connection refused", "true <nil>"}, heard.news)
		assert.EqualValues(t, 4, r.looks.Load())
		assert.Equal(t, Refused, g.Ask(t.Context(), q).Result)
		assert.EqualValues(t, 4, r.looks.Load(), "once it is up nobody looks")
	})
}

// A Redis that is slow, but within the deadline, is back for one that it refuses as for one that it grants.
func TestASlowRefusalEndsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Open, patience, nil)
		r := new(redis)
		r.refuses.Store(true)
		require.Equal(t, FailedOpen, g.Ask(t.Context(), Request{Limiter: r, Permits: 1}).Result)
		time.Sleep(patience)
		assert.Equal(t, Refused, g.Ask(t.Context(), Request{Limiter: slow(patience * 3 / 5), Permits: 1}).Result)
		assert.False(t, g.store.isDown())
	})
}

// slow is a limiter that refuses, on a store that takes a while for each call.
type slow time.Duration

func (s slow) Take(ctx context.Context, _ int64) (rratelimiter.Decision, error) {
	return rratelimiter.Decision{Limit: 10, RetryAfter: time.Minute}, sleep(ctx, time.Duration(s))
}

func (s slow) AvailablePermits(ctx context.Context) (int64, error) {
	return 0, sleep(ctx, time.Duration(s))
}

// Errors that are none of the store's say nothing of it.
func TestWhoIsToBlame(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want Result
		down bool
	}{
		"connection":         {errRefused, FailedClosed, true},
		"no rate":            {rratelimiter.ErrNotInitialized, FailedClosed, false},
		"state":              {&rratelimiter.StateError{}, FailedClosed, false},
		"a policy":           {rratelimiter.ErrInvalidRate, FailedClosed, false},
		"more than there is": {rratelimiter.ErrPermitsExceedRate, Refused, false},
		"permits":            {rratelimiter.ErrInvalidPermits, FailedClosed, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := New(Closed, patience, nil)
				a := g.Ask(t.Context(), Request{Permits: 1, Limiter: takes(func(context.Context) (rratelimiter.Decision, error) {
					return rratelimiter.Decision{}, fmt.Errorf("wrapped: %w", c.err)
				})})
				assert.Equal(t, c.want, a.Result)
				assert.ErrorIs(t, a.Err, c.err)
				assert.Equal(t, c.down, g.store.isDown())
			})
		})
	}
}

// A request that panics while it finds out whether Redis is back leaves that to the next.
func TestAPanicDoesNotKeepTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(Open, patience, nil)
		l := func(err error) Request {
			return Request{Permits: 1, Limiter: takes(func(context.Context) (rratelimiter.Decision, error) {
				if err == nil {
					panic("a clock")
				}
				return rratelimiter.Decision{}, err
			})}
		}
		g.Ask(t.Context(), l(errRefused))
		assert.Panics(t, func() { g.Ask(t.Context(), l(nil)) })
		time.Sleep(patience)
		assert.Equal(t, Granted, g.Ask(t.Context(), Request{Limiter: new(redis), Permits: 1}).Result)
	})
}

// TestAnAnswerThatComesAsACallFails is no outage, whichever of the two is told first.
func TestAnAnswerThatComesAsACallFails(t *testing.T) {
	var down int
	for range 1000 {
		s := &store{clock: clock{time.Now()}, patience: time.Hour}
		var both sync.WaitGroup
		s.mu.Lock() // as somebody else who looks at the store has it
		both.Go(func() { s.judge(errRefused) })
		for range 10 {
			runtime.Gosched() // it mostly waits by then
		}
		s.answered()
		s.mu.Unlock()
		both.Wait()
		if s.isDown() {
			down++
		}
	}
	assert.Zero(t, down, "outages of 1000")
}
