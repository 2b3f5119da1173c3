package outage

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// localPoll is the time after which a request that waits for this process, in its share of the limit or
// in a pause, asks Redis again.
const localPoll = time.Second

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

// isTimeout reports whether a wait has ended, and not the time to make a connection.
func isTimeout(err error) bool {
	var dialed *net.OpError
	return errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &dialed)
}
