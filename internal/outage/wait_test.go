package outage

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/limit"
)

// errDialTimeout is the error of rueidis for a connection that was not made in time. It is a
// context.DeadlineExceeded too.
var errDialTimeout = fmt.Errorf("wrapped: %w", &net.OpError{Op: "dial", Err: context.DeadlineExceeded})

// A late connection is an outage, late permits are not. Both errors are context.DeadlineExceeded.
func TestGuard_DeadlineExceeded_DependsOnWhatIsLate(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		wait time.Duration
		want limit.Result
		down bool
	}{
		"no deadline in the queue":  {context.DeadlineExceeded, Forever, limit.FailedOpen, true},
		"dialed at once":            {errDialTimeout, 0, limit.FailedOpen, true},
		"dialed while it waits":     {errDialTimeout, time.Second, limit.FailedOpen, false}, // the denial was an answer
		"dialed in the queue":       {errDialTimeout, Forever, limit.FailedOpen, true},
		"no permits while it waits": {context.DeadlineExceeded, time.Second, limit.Canceled, false},
		"no permits in the queue":   {context.DeadlineExceeded, Forever, limit.Canceled, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if name == "no deadline in the queue" { // the error is that of the client of Redis
					ctx = t.Context()
				}
				g := withMode(limit.Open, deadline, nil)
				a := g.Ask(ctx, Request{Limiter: waits{err: c.err, take: c.wait == 0, peek: c.down}, Permits: 1, Wait: c.wait})
				assert.Equal(t, c.want, a.Result)
				assert.Equal(t, c.down, g.breakerOf(nil).isDown())
			})
		})
	}
}

// waits is a limiter whose waits fail. With take, Take fails too, and with peek, Peek.
type waits struct {
	inside.Sealed
	err        error
	take, peek bool
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

func (w waits) Name() string { return "" }

func (w waits) Acquire(context.Context, int64) error { return w.err }

// Peek is the call of the prober.
func (w waits) Peek(context.Context) ([]rratelimiter.Decision, error) {
	if w.peek {
		return nil, w.err
	}
	return nil, nil
}

// The numbers of the decision are unknown.
func TestGuard_PermitsAfterAWait_AreGranted(t *testing.T) {
	a := withMode(limit.Closed, deadline, nil).Ask(t.Context(), Request{Limiter: waits{}, Permits: 1, Wait: Forever})
	want := Answered(limit.Acquired, nil)
	want.Decision.Allowed, want.Receipt.Permits = true, 1
	assert.Equal(t, want, a)
}

// hangs is a limiter whose callers wait, and whose Redis answers until it hangs.
type hangs struct {
	waits
	hung *atomic.Bool
}

func (h hangs) Acquire(ctx context.Context, _ int64) error {
	<-ctx.Done()
	return ctx.Err()
}

func (h hangs) Peek(ctx context.Context) ([]rratelimiter.Decision, error) {
	time.Sleep(time.Millisecond) // of a network
	if h.hung.Load() {
		<-ctx.Done()
	}
	return nil, ctx.Err()
}

func TestGuard_RedisHangsDuringAWait_EndsItWithinThreeDeadlines(t *testing.T) {
	for after := time.Duration(0); after < 2*deadline; after += deadline / 8 {
		synctest.Test(t, func(t *testing.T) {
			limiter := hangs{hung: new(atomic.Bool)}
			g := withMode(limit.Open, deadline, nil)
			var hung time.Time
			time.AfterFunc(5*deadline+after, func() {
				hung = time.Now()
				limiter.hung.Store(true)
			})
			a := g.Ask(t.Context(), Request{Limiter: limiter, Permits: 1, Wait: Forever, MaxWaiting: 1})
			assert.Equal(t, limit.FailedOpen, a.Result)
			assert.ErrorIs(t, a.Err, ErrDown)
			assert.LessOrEqual(t, time.Since(hung), 3*deadline, "it hangs after %v", after)
			time.Sleep(2 * probeIdle)
		})
	}
}

// TestGuard_RedisHangsSoonAfterAnOutage_EndsAWaitWithinThreeDeadlines: the last probe of the outage was long after
// the one before it.
func TestGuard_RedisHangsSoonAfterAnOutage_EndsAWaitWithinThreeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := hangs{hung: new(atomic.Bool)}
		limiter.hung.Store(true)
		g := withMode(limit.Open, deadline, nil)
		q := Request{Limiter: limiter, Permits: 1, Wait: Forever, MaxWaiting: 1}
		require.ErrorIs(t, g.Ask(t.Context(), q).Err, ErrDown)
		time.Sleep(10 * maxProbePause)
		limiter.hung.Store(false)
		for g.breakerOf(limiter).isDown() {
			time.Sleep(time.Millisecond)
		}
		var hung time.Time
		time.AfterFunc(deadline/2, func() {
			hung = time.Now()
			limiter.hung.Store(true)
		})
		require.ErrorIs(t, g.Ask(t.Context(), q).Err, ErrDown)
		assert.LessOrEqual(t, time.Since(hung), 3*deadline)
		time.Sleep(2 * probeIdle)
	})
}

// late is a limiter whose Take lasts for a time and denies, or fails until a time.
type late struct {
	waits
	takes time.Duration
	until time.Time
	most  *time.Duration // of the wait
}

func (l late) Take(context.Context, int64) (d rratelimiter.Decision, err error) {
	time.Sleep(l.takes)
	if time.Now().Before(l.until) {
		return d, errRefused
	}
	return rratelimiter.Decision{Limit: 1, RetryAfter: time.Millisecond}, nil
}

func (l late) TryAcquireWithin(_ context.Context, _ int64, most time.Duration) (bool, error) {
	*l.most = most
	return true, nil
}

func (late) Name() string { return "late" }

func (late) Policies() []limit.Policy { return []limit.Policy{hourly(2)} }

// A wait lasts no longer than asked, also if the request was decided without Redis first. Redis may grant
// before the share of the limit does.
func TestGuard_WaitAfterATry_HasTheRestOfTheTime(t *testing.T) {
	for _, downFor := range []time.Duration{0, 1500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			l := late{takes: deadline / 2, until: time.Now().Add(downFor), most: new(time.Duration)}
			g := withMode(1, deadline, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			g.local.decide(Request{Limiter: l, Permits: 1}, 1) // the share is used
			begin := time.Now()
			a := g.Ask(ctx, Request{Limiter: l, Permits: 1, Wait: 2 * time.Hour})
			assert.Equal(t, limit.Acquired, a.Result)
			assert.False(t, a.Local)
			assert.Equal(t, 2*time.Hour, *l.most+time.Since(begin))
			time.Sleep(2 * probeIdle)
		})
	}
}

// hung is a limiter with a queue whose Redis hangs.
type hung struct{ *redis }

func (h hung) Acquire(ctx context.Context, _ int64) error { return h.answer(ctx) }

func (h hung) TryAcquireWithin(ctx context.Context, _ int64, most time.Duration) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return false, h.answer(ctx)
}

func TestGuard_CallersLeaveBeforeTheDeadline_FindTheOutage(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second, Forever} {
		synctest.Test(t, func(t *testing.T) {
			g, limiter := withMode(limit.Open, deadline, nil), hung{new(redis)}
			limiter.hangs.Store(true)
			var a Answer
			for range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), deadline/2)
				a = g.Ask(ctx, Request{Limiter: limiter, Permits: 1, Wait: wait})
				cancel()
			}
			assert.Equal(t, limit.FailedOpen, a.Result, wait)
			time.Sleep(2 * probeIdle)
		})
	}
}

// A limiter without a line of its own, as several that share a call, is asked again after five seconds at
// the latest: others may have returned permits.
func TestGuard_LimiterWithoutALine_IsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := withMode(limit.Closed, deadline, nil)
		r := new(redis)
		r.denies.Store(true)
		time.AfterFunc(11*time.Second, func() { r.denies.Store(false) })
		start := time.Now()
		a := g.Ask(t.Context(), Request{Limiter: r, Permits: 1, Wait: Forever})
		assert.Equal(t, limit.Acquired, a.Result)
		assert.Equal(t, 15*time.Second, time.Since(start))
	})
}
