package limit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// ErrNotReservable is returned by Reserve of a limiter that is not a single [TokenBucket],
// [LeakyBucket] or [Smooth].
var ErrNotReservable = errors.New("limit: the limiter has no reservations")

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
	if !l.wire.plan.reservable {
		return nil, fmt.Errorf("%w: %q is none of one TokenBucket, LeakyBucket or Smooth", ErrNotReservable, l.Name())
	}
	observation := l.calls.Observe(permits)
	r, err := l.reserve(ctx, permits)
	observation.Report(ctx, err == nil, engine.FromRedis, err)
	return r, err
}

// errTooLate is part of the error of a reservation whose time is after the deadline: the error that
// the context would return in the end.
var errTooLate = fmt.Errorf("after the deadline: %w", context.DeadlineExceeded)

func (l *Limiter) tooLate(permits int64, after time.Duration) error {
	return fmt.Errorf("limit: limiter %q: %d permits are free in %v at the earliest, %w", l.wire.name, permits, after,
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
	result, err := l.reserves().Ask(ctx, engine.Ask{Permits: permits, Within: within})
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
