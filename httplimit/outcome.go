package httplimit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/door"
)

// Result is what became of a request.
type Result int

// The results.
const (
	Acquired     = Result(door.Granted)      // it had its permits
	Rejected     = Result(door.Refused)      // it was over the limit
	FailedOpen   = Result(door.FailedOpen)   // nobody could decide, and it passed
	FailedClosed = Result(door.FailedClosed) // nobody could decide, and it did not pass
	Canceled     = Result(door.Canceled)     // its context ended before it was decided
)

// String is the result as metrics name it: acquired, rejected, failed_open, failed_closed or canceled.
func (r Result) String() string {
	switch r {
	case Acquired:
		return "acquired"
	case Rejected:
		return "rejected"
	case FailedOpen:
		return "failed_open"
	case FailedClosed:
		return "failed_closed"
	case Canceled:
		return "canceled"
	}
	return fmt.Sprintf("Result(%d)", int(r))
}

// Outcome is what was decided about a request, and why. The zero value says nothing.
type Outcome struct {
	Result   Result
	Shadow   bool                    // it passed whatever Result says
	Local    bool                    // decided by this process for its share of the limit, see [Local]
	Limiter  string                  // the name of the limiter; "" where it has none, or none was chosen
	Cost     int64                   // permits that were asked for
	Decision rratelimiter.Decision   // the numbers, where Result is Acquired or Rejected
	Each     []rratelimiter.Decision // those of each policy, in order, where several are known; else nil
	Err      error                   // why Redis did not decide; not for clients to see

	known *known
}

// Violated is the names of the policies that refused a request.
func (o Outcome) Violated() []string {
	if o.Result != Rejected || o.known == nil {
		return nil
	}
	var names []string
	switch {
	case len(o.Each) > 0:
		for i, d := range o.Each {
			if !d.Allowed {
				names = append(names, o.known.name(i))
			}
		}
	case errors.Is(o.Err, rratelimiter.ErrPermitsExceedRate):
		for i, quota := range o.known.quotas {
			if quota < o.Cost {
				names = append(names, o.known.name(i))
			}
		}
	}
	if names == nil {
		return []string{o.known.name(o.known.single(o.Decision))}
	}
	return names
}

// visit is a request that passed a Middleware: the context of its handler.
type visit struct {
	context.Context
	outcome Outcome
	guard   *door.Guard
	request door.Request
	answer  door.Answer
	settled atomic.Int64 // the cost in the end, or one of the two below 0
}

const (
	unsettled = -1
	over      = -2 // the handler has returned
)

type visitKey struct{}

func (v *visit) Value(key any) any {
	if key == (visitKey{}) {
		return v
	}
	return v.Context.Value(key)
}

// FromContext is the outcome that let a request pass, for its handler, or that did not, for what [Refuse] was given. It says false
// where the request was not limited. Of several Middlewares around a handler it is that of the innermost.
func FromContext(ctx context.Context) (Outcome, bool) {
	v, ok := ctx.Value(visitKey{}).(*visit)
	if !ok {
		return Outcome{}, false
	}
	return v.outcome, true
}

// Settle says what a request has cost in the end, for its handler to call with the request's context. Once the handler has
// returned the Middleware gives permits back, or charges those that were too few, whether the context has ended or not: the
// log-ins that succeeded cost 0, a download its bytes. The last Settle of a request counts. Where the handler has written less
// than is sent at once, the client waits for that call too, for at most a [Deadline].
//
// It does nothing for a request that has taken nothing: one that was not limited, whose limiter could not be asked, or which a
// Shadow let pass. It fails for a cost below 0, with [rratelimiter.ErrInvalidPermits]; after the handler has returned; and with
// [errors.ErrUnsupported] where the limiter cannot do it: a *[rratelimiter.Limiter] can be given back permits, but not be charged.
func Settle(ctx context.Context, cost int64) error {
	if cost < 0 {
		return fmt.Errorf("%w: a cost of %d to settle, want 0 or more", rratelimiter.ErrInvalidPermits, cost)
	}
	v, ok := ctx.Value(visitKey{}).(*visit)
	if !ok || v.outcome.Result != Acquired {
		return nil
	}
	if taken := v.request.Permits; cost != taken && !v.answer.Local && !door.Settles(v.request.Limiter, cost > taken) {
		return fmt.Errorf("httplimit: a limiter of type %T has taken %d permits and cannot settle for %d: %w", v.request.Limiter, taken, cost, errors.ErrUnsupported)
	}
	for {
		before := v.settled.Load()
		if before == over {
			return errors.New("httplimit: Settle after the handler has returned")
		}
		if v.settled.CompareAndSwap(before, cost) {
			return nil
		}
	}
}

// settle does what Settle said.
func (v *visit) settle() error {
	cost := v.settled.Swap(over)
	if cost < 0 {
		return nil
	}
	return v.guard.Settle(v.Context, v.request, v.answer, cost)
}
