package guard

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// hung is a limiter whose Redis hangs: each call ends with its context or its timeout.
type hung struct{}

func (hung) Name() string { return "" }

func (hung) Take(ctx context.Context, _ int64) (rratelimiter.Decision, error) {
	<-ctx.Done()
	return rratelimiter.Decision{}, ctx.Err()
}

func (hung) Acquire(ctx context.Context, _ int64) error {
	<-ctx.Done()
	return ctx.Err()
}

func (hung) TryAcquireWithin(ctx context.Context, _ int64, most time.Duration) (bool, error) {
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(most):
		return false, context.DeadlineExceeded
	}
}

// TestGuard_CallersLeaveBeforeTheDeadline_FindTheOutage: with and without a wait.
func TestGuard_CallersLeaveBeforeTheDeadline_FindTheOutage(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second, Forever} {
		synctest.Test(t, func(t *testing.T) {
			g := New(limit.Open, deadline, nil)
			var a Answer
			for range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), deadline/2)
				a = g.Ask(ctx, Request{Limiter: hung{}, Permits: 1, Wait: wait})
				cancel()
			}
			assert.Equal(t, limit.FailedOpen, a.Result, wait)
			time.Sleep(2 * probeIdle)
		})
	}
}

// pausable is a limiter that Redis cannot decide, with a pause in Redis.
type pausable struct{ takes atomic.Int64 }

func (p *pausable) Name() string { return "paused" }

func (p *pausable) Take(context.Context, int64) (rratelimiter.Decision, error) {
	if p.takes.Add(1) > 1000 {
		return rratelimiter.Decision{RetryAfter: time.Second}, nil
	}
	return rratelimiter.Decision{}, errors.New("MOVED too often")
}

func (p *pausable) Pause(context.Context, time.Duration) error { return nil }

// TestGate_CallsFailDuringAPause_NoneSpins: another limiter of the node is answered.
func TestGate_CallsFailDuringAPause_NoneSpins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, s := new(pausable), NewSettings()
		s.Mode, s.Deadline = limit.Open, deadline
		g := NewGate(s, Hooks[int]{Choose: func(int) (Limiter, error) { return p, nil }}, true)
		g.Pause(p, 10*time.Second)
		synctest.Wait()
		g.breakerOf(p).succeeded()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Decide(ctx, 1)
		assert.Less(t, p.takes.Load(), int64(10))
		time.Sleep(2 * probeIdle)
	})
}
