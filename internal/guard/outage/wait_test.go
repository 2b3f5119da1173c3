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
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/redistest/fake"
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
		"no deadline in the queue":  {context.DeadlineExceeded, inside.Forever, limit.FailedOpen, true},
		"dialed at once":            {errDialTimeout, 0, limit.FailedOpen, true},
		"dialed while it waits":     {errDialTimeout, time.Second, limit.FailedOpen, false}, // the denial was an answer
		"dialed in the queue":       {errDialTimeout, inside.Forever, limit.FailedOpen, true},
		"no permits while it waits": {context.DeadlineExceeded, time.Second, limit.Canceled, false},
		"no permits in the queue":   {context.DeadlineExceeded, inside.Forever, limit.Canceled, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if name == "no deadline in the queue" { // the error is that of the client of Redis
					ctx = t.Context()
				}
				g := withMode(limit.Open, deadline, nil)
				l := waits(c.err)
				if c.wait == 0 {
					l.OnTry = fake.Failing(c.err).OnTry
				}
				if c.down {
					l.OnProbe = func(context.Context) error { return c.err }
				}
				assert.Equal(t, c.want, g.Decide(ctx, Demand{Limiter: l, Permits: 1, Wait: c.wait}).Result)
				assert.Equal(t, c.down, g.breakerOf(l).isDown())
			})
		})
	}
}

// waits returns a limiter that denies, and whose waits end with an error.
func waits(err error) *fake.Limiter {
	return &fake.Limiter{
		OnTry: fake.Decide(func(context.Context) (rratelimiter.Decision, error) {
			return rratelimiter.Decision{Limit: 1, RetryAfter: time.Millisecond}, nil
		}),
		OnWait: func(context.Context) (bool, error) { return err == nil, err },
	}
}

// The numbers of the decision are unknown.
func TestGuard_PermitsAfterAWait_AreGranted(t *testing.T) {
	d := Demand{Limiter: waits(nil), Permits: 1, Wait: inside.Forever}
	a := withMode(limit.Closed, deadline, nil).Decide(t.Context(), d)
	want := Answered(limit.Acquired, nil)
	want.Decision.Allowed, want.Receipt.Permits = true, 1
	assert.Equal(t, want, a)
}

// hangs is a limiter whose callers wait, and whose Redis answers until it hangs.
type hangs struct {
	*fake.Limiter
	hung atomic.Bool
}

func newHangs() *hangs {
	h := &hangs{Limiter: waits(nil)}
	h.OnWait = func(ctx context.Context) (bool, error) {
		<-ctx.Done()
		return false, ctx.Err()
	}
	h.OnProbe = func(ctx context.Context) error {
		time.Sleep(time.Millisecond) // of a network
		if h.hung.Load() {
			return fake.Hang(ctx)
		}
		return ctx.Err()
	}
	return h
}

func TestGuard_RedisHangsDuringAWait_EndsItWithinThreeDeadlines(t *testing.T) {
	for after := time.Duration(0); after < 2*deadline; after += deadline / 8 {
		synctest.Test(t, func(t *testing.T) {
			limiter := newHangs()
			g := withMode(limit.Open, deadline, nil)
			var hung time.Time
			time.AfterFunc(5*deadline+after, func() {
				hung = time.Now()
				limiter.hung.Store(true)
			})
			a := g.Decide(t.Context(), Demand{Limiter: limiter, Permits: 1, Wait: inside.Forever, MaxWaiting: 1})
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
		limiter := newHangs()
		limiter.hung.Store(true)
		g := withMode(limit.Open, deadline, nil)
		q := Demand{Limiter: limiter, Permits: 1, Wait: inside.Forever, MaxWaiting: 1}
		require.ErrorIs(t, g.Decide(t.Context(), q).Err, ErrDown)
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
		require.ErrorIs(t, g.Decide(t.Context(), q).Err, ErrDown)
		assert.LessOrEqual(t, time.Since(hung), 3*deadline)
		time.Sleep(2 * probeIdle)
	})
}

// A wait lasts no longer than asked, also if the request was decided without Redis first. Redis may grant
// before the share of the limit does.
func TestGuard_WaitAfterATry_HasTheRestOfTheTime(t *testing.T) {
	for _, downFor := range []time.Duration{0, 1500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			// Take lasts for a time and denies, or fails until a time.
			begin, l, end := time.Now(), waits(nil), time.Time{}
			l.Called, l.Of = "late", []limit.Policy{hourly(2)}
			denies := l.OnTry
			l.OnTry = func(ctx context.Context, ask engine.Ask, result *engine.Result) error {
				time.Sleep(deadline / 2)
				if time.Since(begin) < downFor {
					return errRefused
				}
				return denies(ctx, ask, result)
			}
			l.OnWait = func(ctx context.Context) (bool, error) {
				end, _ = ctx.Deadline()
				return true, nil
			}
			g := withMode(1, deadline, nil)
			g.local.decide(l, 1, 1) // the share is used
			a := g.Decide(t.Context(), Demand{Limiter: l, Permits: 1, Wait: 2 * time.Hour})
			assert.Equal(t, limit.Acquired, a.Result)
			assert.False(t, a.Local)
			assert.Equal(t, 2*time.Hour, end.Sub(begin))
			time.Sleep(2 * probeIdle)
		})
	}
}

func TestGuard_CallersLeaveBeforeTheDeadline_FindTheOutage(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second, inside.Forever} {
		synctest.Test(t, func(t *testing.T) {
			g, limiter := withMode(limit.Open, deadline, nil), newRedis()
			limiter.OnWait = func(ctx context.Context) (bool, error) { return false, limiter.answer(ctx) }
			limiter.hangs.Store(true)
			var a Answer
			for range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), deadline/2)
				a = g.Decide(ctx, Demand{Limiter: limiter, Permits: 1, Wait: wait})
				cancel()
			}
			assert.Equal(t, limit.FailedOpen, a.Result, wait)
			time.Sleep(2 * probeIdle)
		})
	}
}
