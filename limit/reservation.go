package limit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// ErrNotReservable is returned by Reserve of a limiter that is not a single [TokenBucket],
// [LeakyBucket] or [Smooth].
var ErrNotReservable = errors.New("limit: the limiter has no reservations")

// Reservation is permits that a caller may use from a time on. The time of the zero Reservation has
// passed: its Delay is 0, and its Cancel does nothing.
//
// A Reservation is safe for concurrent use.
type Reservation struct {
	limiter   *Limiter
	delay     time.Duration // when it was made
	at        time.Time     // by the clock of this process
	permits   int64
	receipt   string // names it in the cancel script
	cancelled atomic.Bool
}

// Delay returns the time to wait before acting, or 0 if none is left. It counts from the reply of
// Redis, by the clock of this process.
func (r *Reservation) Delay() time.Duration {
	if r.limiter == nil {
		return 0
	}
	return max(0, time.Until(r.at))
}

// Cancel returns the permits of the reservation, less those that were reserved later, which keep
// their times. So the last reservation returns whole, and one with more permits reserved behind it
// than it holds returns nothing. To return all permits of several reservations, cancel the newest
// first: a reservation that is cancelled while others are behind it still counts as reserved later
// than those before it. Cancel does nothing after the time of the reservation. A second Cancel does
// nothing either, even if the first one failed. After Cancel the caller must not act.
func (r *Reservation) Cancel(ctx context.Context) error {
	if r.Delay() == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.revoke(ctx)
}

// revoke is Cancel at any time, even after the reserved one.
func (r *Reservation) revoke(ctx context.Context) error {
	_, err := engine.Detach(ctx, func(ctx context.Context) (struct{}, error) {
		if r.cancelled.Swap(true) {
			return struct{}{}, nil
		}
		return struct{}{}, r.limiter.refund(engine.Unattended(ctx), cancel, r.part(r.permits)) // it cannot be repeated
	})
	return err
}

// part names permits of the reservation in the cancel script.
func (r *Reservation) part(permits int64) string {
	return strconv.FormatInt(permits, 10) + " " + r.receipt
}

// refund returns some of the permits of a caller that has waited for them.
func (r *Reservation) refund(ctx context.Context, permits int64) error {
	return r.limiter.refund(ctx, cancel, r.part(permits))
}

// revokeLater is revoke in the background.
func (r *Reservation) revokeLater(ctx context.Context) {
	go func() { _ = r.revoke(engine.Unattended(ctx)) }()
}

// Reserve takes permits for the time at which they are free, and returns that Reservation. Callers
// of all programs get their times in the order in which Redis received them. A later caller gets an
// earlier time only if a reservation was cancelled. Callers that reserve at the same time share one
// call to Redis.
//
// With a [TokenBucket] the time is when the bucket has the permits, after all that were taken and
// reserved before. Its tokens go below 0, as with ReserveN of golang.org/x/time/rate. With a
// [LeakyBucket] it is when all permits that were taken before have leaked. With [Smooth] it is the
// next free time, whatever the permits.
//
// If the deadline of ctx is before that time, Reserve fails at once with [context.DeadlineExceeded]
// and reserves nothing. A time more than 285 years ahead is the same error. If ctx ends during the
// call, the reservation is cancelled. Other errors: [ErrNotReservable], and those of
// [Limiter.TryAcquire].
func (l *Limiter) Reserve(ctx context.Context, permits int64) (*Reservation, error) {
	if err := l.checkPermits(ctx, permits); err != nil {
		return nil, err
	}
	if !l.plan.reservable {
		return nil, fmt.Errorf("%w: %q is none of one TokenBucket, LeakyBucket or Smooth", ErrNotReservable, l.Name())
	}
	observation := l.calls.Observe(permits)
	r, err := l.reserve(ctx, permits)
	observation.Report(ctx, err == nil, engine.FromRedis, err)
	return r, err
}

// longestDelay is the longest that a reservation can be made for.
const longestDelay = (maxPermits - 1) * time.Microsecond

// errTooLate is part of the error of a reservation whose time is after the deadline: the error that
// the context would return in the end.
var errTooLate = fmt.Errorf("after the deadline: %w", context.DeadlineExceeded)

func (l *Limiter) tooLate(permits int64, after time.Duration) error {
	return fmt.Errorf("limit: limiter %q: %d permits are free in %v at the earliest, %w", l.name, permits, after,
		errTooLate)
}

// reserve makes a reservation within the deadline of ctx.
func (l *Limiter) reserve(ctx context.Context, permits int64) (*Reservation, error) {
	within := longestDelay
	deadline, bound := ctx.Deadline()
	if bound {
		if within = min(within, time.Until(deadline)); within < 0 {
			return nil, context.DeadlineExceeded
		}
	}
	result, err := l.reserves.Ask(ctx, engine.Ask{Permits: permits, Within: within})
	if err != nil {
		return nil, err
	}
	if !result.Allowed {
		return nil, l.tooLate(permits, result.RetryAfter)
	}
	r := result.Extra.(*Reservation)
	if bound && r.delay > 0 && r.at.After(deadline) {
		// The call itself took the rest of the time.
		r.revokeLater(ctx)
		return nil, l.tooLate(permits, r.delay)
	}
	return r, nil
}
