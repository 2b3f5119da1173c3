package door

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// redis is a limiter on a store that can be made to fail. It grants all.
type redis struct {
	hangs, refuses atomic.Bool
	asked          atomic.Int64
	denies         atomic.Bool // from memory: also where it hangs
	looks          atomic.Int64
}

var errRefused = errors.New("connection refused")

func (r *redis) Name() string { return "name" }

func (r *redis) Take(ctx context.Context, _ int64) (rratelimiter.Decision, error) {
	if r.denies.Load() {
		return rratelimiter.Decision{Limit: 10, RetryAfter: time.Minute}, nil
	}
	r.asked.Add(1)
	return rratelimiter.Decision{Allowed: true, Limit: 10, Remaining: 9}, r.answer(ctx)
}

func (r *redis) Peek(ctx context.Context) ([]rratelimiter.Decision, error) {
	r.looks.Add(1)
	return nil, r.answer(ctx)
}

func (r *redis) answer(ctx context.Context) error {
	switch {
	case r.refuses.Load():
		return errRefused
	case r.hangs.Load():
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

const patience = 100 * time.Millisecond

// told is what a callback was told.
type told struct {
	mu   sync.Mutex
	news []string
}

func (t *told) changed(up bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.news = append(t.news, fmt.Sprint(up, " ", err))
}

func TestModes(t *testing.T) {
	for name, c := range map[string]struct {
		mode Mode
		want Result
	}{
		"open": {Open, FailedOpen}, "closed": {Closed, FailedClosed}, "a share": {0.5, Granted},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := new(redis)
				r.refuses.Store(true)
				g := New(c.mode, patience, nil)
				q := Request{Limiter: r, Policies: []limit.Policy{limit.FixedWindow{Permits: 10, Interval: time.Second}}, Permits: 1}
				a := g.Ask(t.Context(), q)
				assert.Equal(t, c.want, a.Result)
				assert.ErrorIs(t, a.Err, errRefused)
				assert.Equal(t, c.mode == 0.5, a.Local)
			})
		})
	}
}

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

type takes func(ctx context.Context) (rratelimiter.Decision, error)

func (f takes) Take(ctx context.Context, _ int64) (rratelimiter.Decision, error) { return f(ctx) }

// A request whose own context ends is not decided, and no sign of an outage.
func TestACallerWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(redis)
		r.hangs.Store(true)
		g := New(Open, patience, nil)
		ctx, cancel := context.WithTimeout(t.Context(), patience/2)
		defer cancel()
		a := g.Ask(ctx, Request{Limiter: r, Permits: 1})
		assert.Equal(t, Canceled, a.Result)
		assert.False(t, g.store.isDown())
	})
}

// errDialTimeout is what rueidis gives where a connection could not be made in time: it is a context.DeadlineExceeded too.
var errDialTimeout = fmt.Errorf("wrapped: %w", &net.OpError{Op: "dial", Err: context.DeadlineExceeded})

// A connection that could not be made in time is an outage, and permits that cannot be had in time are none, though both are told by
// the same error.
func TestTooLateForWhat(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		wait time.Duration
		want Result
	}{
		"dialed at once": {errDialTimeout, 0, FailedOpen}, "dialed while it waits": {errDialTimeout, time.Second, FailedOpen},
		"dialed in line": {errDialTimeout, Forever, FailedOpen}, "no permits while it waits": {context.DeadlineExceeded, time.Second, Canceled},
		"no permits in line": {context.DeadlineExceeded, Forever, Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				g := New(Open, patience, nil)
				a := g.Ask(ctx, Request{Limiter: waits{c.err, c.wait == 0}, Permits: 1, Wait: c.wait})
				assert.Equal(t, c.want, a.Result)
				assert.Equal(t, c.want == FailedOpen, g.store.isDown())
			})
		})
	}
}

// waits is a limiter whose waits fail, or already its Take.
type waits struct {
	err  error
	take bool
}

func (w waits) Take(context.Context, int64) (rratelimiter.Decision, error) {
	if w.take {
		return rratelimiter.Decision{}, w.err
	}
	return rratelimiter.Decision{Limit: 1, RetryAfter: time.Millisecond}, nil
}

func (w waits) TryAcquireWithin(context.Context, int64, time.Duration) (bool, error) {
	return false, w.err
}

func (w waits) Acquire(context.Context, int64) error { return w.err }

// A callback that blocks holds up the request that tells it, and no other; what happens meanwhile is told behind it, in order. One
// that panics hurts the request that called it.
func TestCallbacksInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, heard, release := new(redis), new(told), make(chan bool)
		first := true
		g := New(Open, patience, func(up bool, err error) {
			if first {
				first = false
				<-release
			}
			heard.changed(up, err)
		})
		q := Request{Limiter: r, Permits: 1}
		r.refuses.Store(true)
		go g.Ask(t.Context(), q)
		synctest.Wait()
		r.refuses.Store(false)
		assert.Equal(t, Granted, g.Ask(t.Context(), q).Result)
		time.Sleep(patience)
		r.refuses.Store(true)
		assert.Equal(t, FailedOpen, g.Ask(t.Context(), q).Result)
		assert.Empty(t, heard.news)
		close(release)
		synctest.Wait()
		assert.Equal(t, []string{"false connection refused", "true <nil>", "false connection refused"}, heard.news)
	})
	t.Run("that panic", func(t *testing.T) {
		r, calls := new(redis), 0
		r.refuses.Store(true)
		g := New(Open, patience, func(bool, error) { calls++; panic("a callback") })
		q := Request{Limiter: r, Permits: 1}
		assert.Panics(t, func() { g.Ask(t.Context(), q) })
		r.refuses.Store(false)
		assert.Panics(t, func() { g.Ask(t.Context(), q) })
		assert.Equal(t, Granted, g.Ask(t.Context(), q).Result)
		assert.Equal(t, 2, calls)
	})
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

func TestADeadlineIsAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		parent, end := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		c := &deadline{Context: parent, at: time.Now().Add(patience)}
		at, ok := c.Deadline()
		assert.True(t, ok)
		assert.Equal(t, time.Now().Add(patience), at)
		require.NoError(t, c.Err())
		child, stop := context.WithCancel(c)
		defer stop()
		assert.Equal(t, "value", child.Value(key{}))
		time.Sleep(patience)
		synctest.Wait()
		assert.ErrorIs(t, child.Err(), context.DeadlineExceeded)
		assert.ErrorIs(t, c.Err(), context.DeadlineExceeded)
		assert.NoError(t, parent.Err())

		c = &deadline{Context: parent, at: time.Now().Add(patience)}
		done := c.Done()
		end()
		synctest.Wait()
		<-done
		assert.ErrorIs(t, c.Err(), context.Canceled)

		c = &deadline{Context: t.Context(), at: time.Now().Add(patience)}
		done = c.Done()
		c.stop()
		<-done
		assert.ErrorIs(t, c.Err(), context.Canceled, "it keeps no timer")

		sooner, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		at, _ = (&deadline{Context: sooner, at: time.Now().Add(patience)}).Deadline()
		assert.Equal(t, time.Now().Add(time.Millisecond), at)
	})
}
