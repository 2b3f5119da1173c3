package outage

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redistest/fake"
	"github.com/rratelimiter/rratelimiter/limit"
)

// redis is a limiter whose Redis can be made to fail. It grants all.
type redis struct {
	*fake.Limiter
	hangs, down atomic.Bool
	asked       atomic.Int64
	denies      atomic.Bool // also where it hangs
	looks       atomic.Int64
}

var errRefused = errors.New("connection refused")

func newRedis() *redis {
	r := &redis{Limiter: &fake.Limiter{Called: "name"}}
	r.OnTry = fake.Decide(func(ctx context.Context) (rratelimiter.Decision, error) {
		if r.denies.Load() {
			return rratelimiter.Decision{Limit: 10, RetryAfter: time.Minute}, nil
		}
		r.asked.Add(1)
		return rratelimiter.Decision{Allowed: true, Limit: 10, Remaining: 9}, r.answer(ctx)
	})
	r.OnProbe = func(ctx context.Context) error {
		r.looks.Add(1)
		return r.answer(ctx)
	}
	return r
}

func (r *redis) answer(ctx context.Context) error {
	switch {
	case r.down.Load():
		return errRefused
	case r.hangs.Load():
		return fake.Hang(ctx)
	}
	return nil
}

// modal is a guard whose requests have a mode.
type modal struct {
	*Guard
	mode limit.FailureMode
}

func withMode(mode limit.FailureMode, deadline time.Duration, changed Changed) modal {
	return modal{New(deadline, changed), mode}
}

func (g modal) Decide(ctx context.Context, q Demand) Answer {
	q.Mode = g.mode
	return g.Guard.Decide(ctx, q)
}

const deadline = 100 * time.Millisecond

// A request whose own context ends is not decided. A probe checks whether Redis is down.
func TestGuard_CallersLeave_ProbeFindsOut(t *testing.T) {
	for hangs, want := range map[bool][]string{false: nil, true: {"false context deadline exceeded", "true <nil>"}} {
		synctest.Test(t, func(t *testing.T) {
			r, reports := newRedis(), new(recorder)
			r.hangs.Store(true)
			g := withMode(limit.Open, deadline, reports.changed)
			ctx, cancel := context.WithTimeout(t.Context(), deadline/2)
			defer cancel()
			// Redis recovers before the probe, which begins as the caller leaves.
			time.AfterFunc(deadline/4, func() { r.hangs.Store(hangs) })
			a := g.Decide(ctx, Demand{Limiter: r, Permits: 1})
			assert.Equal(t, limit.Canceled, a.Result)
			assert.False(t, g.breakerOf(r).isDown())
			time.Sleep(deadline)
			synctest.Wait()
			assert.Equal(t, hangs, g.breakerOf(r).isDown())
			r.hangs.Store(false)
			time.Sleep(3 * deadline)
			synctest.Wait()
			assert.Equal(t, want, reports.changes)
		})
	}
}

// A settlement that sends nothing is no answer of Redis: requests that end do not hide an outage.
func TestGuard_SettlementsSendNothing_OutageBegins(t *testing.T) {
	for name, cost := range map[string]int64{"less": 0, "more": 2} {
		t.Run(name, func(t *testing.T) {
			redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
				reports := new(recorder)
				g := withMode(limit.Closed, deadline, reports.changed)
				l := limit.New(rratelimiter.New(f.Conn), "name", limit.InFlight{Permits: 100, Lease: time.Hour})
				q := Demand{Limiter: l, Permits: 1}
				var running []Answer
				for range 40 {
					running = append(running, g.Decide(t.Context(), q))
				}
				f.Latency.Store(int64(time.Hour)) // Redis hangs
				var ends sync.WaitGroup
				ends.Go(func() {
					for _, a := range running {
						_ = g.Settle(t.Context(), l, a, cost) // in an outage, an error
						time.Sleep(deadline / 2)
					}
				})
				begin := time.Now()
				for range 15 {
					g.Decide(t.Context(), q)
				}
				assert.LessOrEqual(t, time.Since(begin), 3*deadline, "requests waited for the deadline")
				ends.Wait()
				assert.Equal(t, []string{"false context deadline exceeded"}, reports.changes)
				f.Latency.Store(0)
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// Users see these errors, and cannot import this package.
func TestErrors_Text_DoesNotNameThePackage(t *testing.T) {
	panics := fake.Deciding(func(context.Context) (rratelimiter.Decision, error) { panic("a client") })
	zero := CheckLimiter(new(limit.Limiter))
	for _, err := range []error{ErrDown, ErrTooManyWaiting, limit.ErrInvalidRequest, probe(t.Context(), panics), zero} {
		assert.NotContains(t, err.Error(), "outage")
		assert.Regexp(t, "^rratelimiter: ", err.Error())
	}
}

func TestGuard_SettleForWhatWasTaken_IsNoErrorInAnOutage(t *testing.T) {
	g, l, a := withMode(limit.Open, deadline, nil), newRedis(), Answered(limit.Acquired, nil)
	a.Receipt.Permits = 2
	g.breakerOf(l).state.Store(nodeDown)
	assert.NoError(t, g.Settle(t.Context(), l, a, 2))
	assert.ErrorIs(t, g.Settle(t.Context(), l, a, 1), ErrDown)
}
