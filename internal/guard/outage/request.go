package outage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/limit"
)

// A request for permits of a limiter, its answer, and the call that gets it.

// Forever is a wait that ends only with the request's context.
const Forever = inside.Forever

// Ask is a request for permits of a limiter.
type Ask struct {
	Limiter    Limiter
	Each       bool  // the Answer has the decision of each policy, even of one alone
	Permits    int64 // at least 1
	Mode       limit.FailureMode
	Wait       time.Duration // the longest wait in place of a denial; 0 for none, or Forever
	MaxWaiting int           // bounds the requests that wait at once; 0 for no bound
	// Paused returns how long a pause of outgoing calls still lasts; with redis, one that Redis does not know. It is
	// nil for others.
	Paused func(redis bool) time.Duration
}

// Answer is the result of a request, and its reasons. A Guard sets Result, Local, Decision, Each and
// Err of the Outcome.
type Answer struct {
	limit.Outcome
	Receipt receipt.Receipt // of the permits, if Result is Acquired

	fromMemory bool // decided by a prefetch or a denial cache
	paused     bool // denied by a pause that a server asked for
}

// Passes reports whether the request proceeds.
func (a Answer) Passes() bool {
	return a.Shadow || a.Result == limit.Acquired || a.Result == limit.FailedOpen
}

// RetryAfter returns the time after which a retry of a refused request may succeed, 0 for never.
func (a Answer) RetryAfter() time.Duration {
	switch a.Result {
	case limit.FailedClosed:
		return time.Second
	case limit.Rejected:
		return a.Decision.RetryAfter
	}
	return 0
}

var (
	// ErrDown is the error of requests that are decided without a call to Redis, since it is down.
	ErrDown = errors.New("rratelimiter: Redis is down: the call was not sent")
	// ErrTooManyWaiting is the error of requests that are denied at once, since the bound of waiters
	// is reached.
	ErrTooManyWaiting = errors.New("rratelimiter: too many requests are waiting for permits: raise MaxWaiting")
)

// Answered returns an answer with a result and its reason.
func Answered(r limit.Result, err error) (a Answer) {
	a.Result, a.Err = r, err
	return a
}

// pausedFor returns the denial of a request during a pause.
func pausedFor(left time.Duration) (a Answer) {
	a.Result, a.paused, a.Decision.RetryAfter = limit.Rejected, true, left
	return a
}

// call asks the limiter once, or waits in its queue for at most a time, or Forever. The answer to an error is Canceled
// if no permits are free before the deadline of ctx, which is no failure to make a connection in time.
func (q Ask) call(ctx context.Context, wait time.Duration) (a Answer, err error) {
	h, err := handleOf(q.Limiter)
	if err != nil {
		return a, err
	}
	ask, r := engine.Ask{Permits: q.Permits, Detail: true, Each: q.Each, Receipt: true}, engine.Result{}
	if wait == 0 {
		err = h.Try(ctx, ask, &r)
	} else {
		end, deadline := time.Now().Add(wait), time.Time{}
		if wait != Forever {
			deadline = end
		}
		r.Allowed, err = h.Wait(ctx, ask, deadline, &r)
		_, ends := ctx.Deadline()
		if ends && ctx.Err() == nil && isTimeout(err) && (wait == Forever || time.Now().Before(end)) {
			a.Result = limit.Canceled
		}
	}
	a.Decision, a.fromMemory = rratelimiter.Decision(r.Answer), r.From != engine.FromRedis
	for _, part := range r.Parts {
		a.Each = append(a.Each, rratelimiter.Decision(part))
	}
	a.Receipt = receipt.Receipt{Permits: q.Permits, Refund: r.Refund, Hold: r.Hold}
	return a, err
}

// isTimeout reports whether a wait has ended, and not the time to make a connection.
func isTimeout(err error) bool {
	var dialed *net.OpError
	return errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &dialed)
}

// Limiter is a limiter of requests.
type Limiter = limit.Joinable

// handleOf returns the handle of a limiter, or the error of one that is zero.
func handleOf(l Limiter) (inside.Handle, error) {
	if h, ok := l.(inside.Handle); ok {
		return h, nil
	}
	if h, ok := inside.Of[inside.Handle](l); ok {
		return h, nil
	}
	return nil, fmt.Errorf("%w: open the limiter: a %T is zero", rratelimiter.ErrNoClient, l)
}

// IsNil reports whether l is nil or holds a nil pointer.
func IsNil(l Limiter) bool {
	v := reflect.ValueOf(l)
	return l == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// chargeOf returns the call that charges more permits, nil if the limiter has none.
func chargeOf(l Limiter) receipt.Charge {
	if h, err := handleOf(l); err == nil {
		return h.ChargeMore()
	}
	return nil
}

// CanCharge reports whether a limiter can charge more permits than a call has taken.
func CanCharge(l Limiter) bool { return chargeOf(l) != nil }

// CheckLimiter returns the error with which every call of a limiter fails. It sends nothing to Redis.
func CheckLimiter(l Limiter) error {
	h, err := handleOf(l)
	if err != nil {
		return err
	}
	// A call whose context has ended reports invalid arguments first.
	if err := h.Try(ended, engine.Ask{Permits: 1}, new(engine.Result)); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

var ended = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// membersOf returns the limiter of each policy of a limiter, none for an invalid one.
func membersOf(l Limiter) []inside.Member {
	h, err := handleOf(l)
	if err != nil {
		return nil
	}
	return h.Members()
}

// policyOf returns the policy of a member, with the initial rate of one of Redisson's layout; nil if it is unknown.
func policyOf(m inside.Member) limit.Policy {
	if m.Permits > 0 {
		return limit.SlidingLog{Permits: m.Permits, Interval: m.Interval}
	}
	p, _ := m.Policy.(limit.Policy)
	return p
}

// PoliciesOf returns the policies that a limiter was opened with, nil for one that is unknown.
func PoliciesOf(l Limiter) (all []limit.Policy) {
	for _, m := range membersOf(l) {
		all = append(all, policyOf(m))
	}
	return all
}
