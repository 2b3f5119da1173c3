package outage

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// localPoll is the time after which a request that waits for this process, in its share of the limit or
// in a pause, asks Redis again.
const localPoll = time.Second

// Decide decides a request. If Redis denies it and it may wait, it waits in the queue of its limiter. In a pause, or if a
// local share denies it, it asks again at the time of the next try.
func (g *Guard) Decide(ctx context.Context, q Ask) Answer {
	begin, counted := time.Now(), false
	a := g.try(ctx, q)
	for q.Wait != 0 {
		if q.Paused != nil && a.Passes() {
			if left := q.Paused(a.Result == limit.Acquired && !a.Local); left > 0 {
				// The pause began during the call or the wait, so the permit is too early: refund it. A permit
				// that cannot be refunded is lost.
				a.Receipt.Hold.Return()
				_ = g.Settle(ctx, q, a, 0)
				a = pausedFor(left)
			}
		}
		after, left := a.Decision.RetryAfter, q.Wait
		if q.Wait > 0 {
			left = q.Wait - time.Since(begin)
		}
		queues := a.Err == nil && !a.paused // Redis has denied it
		if a.Result != limit.Rejected || q.Wait > 0 && a.earliestGrant(q) > left || after <= 0 && !queues {
			return a
		}
		if !counted {
			defer g.waiting.Add(-1)
			if n := g.waiting.Add(1); q.MaxWaiting > 0 && n > int64(q.MaxWaiting) {
				a.Err = ErrTooManyWaiting
				return a
			}
			counted = true
		}
		if queues {
			if q.Wait > 0 {
				left = max(1, left)
			}
			if a = g.waitInQueue(ctx, q, a, left); a.Result == limit.Rejected && !a.Local {
				return a
			}
			continue
		}
		if err := a.sleep(ctx); err != nil {
			canceled := Answered(limit.Canceled, err)
			canceled.Decision, canceled.Each = a.Decision, a.Each
			return canceled
		}
		a = g.try(ctx, q)
	}
	return a
}

// earliestGrant returns the time before which a denied request is not granted. It leaves out permits that are
// held, whose RetryAfter is a guess.
func (a Answer) earliestGrant(q Ask) (after time.Duration) {
	policies := PoliciesOf(q.Limiter)
	if !slices.ContainsFunc(policies, isHeld) {
		return a.Decision.RetryAfter
	}
	for i, one := range a.Each {
		if len(a.Each) == len(policies) && !isHeld(policies[i]) {
			after = max(after, one.RetryAfter)
		}
	}
	return after
}

// isHeld reports whether the permits of a policy are held until they are returned.
func isHeld(p limit.Policy) bool {
	d, _ := policy.Of(p)
	return d.Refill == policy.Held
}

// waitInQueue waits in the queue of a limiter after its denial, for at most a time, or Forever. If Redis is
// down meanwhile, the wait ends.
func (g *Guard) waitInQueue(ctx context.Context, q Ask, denied Answer, most time.Duration) Answer {
	up, stop := g.whileUp(ctx, q.Limiter)
	defer stop()
	a, err := q.call(up, most)
	b := g.breakerOf(q.Limiter)
	if err != nil {
		if a.Result != limit.Canceled && q.Wait > 0 && up.Err() == nil && isTimeout(err) && !b.isSilent() {
			return denied // the wait is over, and Redis still has time to answer
		}
		denied.Result = a.Result
		if ctx.Err() == nil && errors.Is(context.Cause(up), ErrDown) {
			denied.Result, err = limit.Rejected, b.notSent(q.Limiter)
		}
		return g.afterError(ctx, b, q, denied, err)
	}
	if !a.Decision.Allowed {
		if a.Decision.Limit > 0 && !slices.ContainsFunc(PoliciesOf(q.Limiter), isHeld) { // else its RetryAfter is for the queue
			denied.Decision, denied.Each = a.Decision, a.Each
		}
		return denied
	}
	return b.answered(ctx, q.Limiter, a)
}

// sleep waits until a request that a pause or a local share has denied is to ask again. It fails at once if ctx ends
// before it could be granted.
func (a Answer) sleep(ctx context.Context) error {
	whole, poll := a.Decision.RetryAfter, min(a.Decision.RetryAfter, localPoll)
	if a.Local {
		whole = poll // Redis may grant before the share does
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < whole {
		return context.DeadlineExceeded
	}
	select {
	case <-time.After(poll):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
