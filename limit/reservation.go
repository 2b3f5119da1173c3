package limit

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// Reservation is permits that a caller may use from a time on. The time of the zero Reservation has
// passed: its Delay is 0, and its Cancel does nothing.
//
// A Reservation is safe for concurrent use.
type Reservation struct {
	wire      *wire
	delay     time.Duration // when it was made
	at        time.Time     // by the clock of this process
	permits   int64
	receipt   string // names it in the cancel script
	cancelled atomic.Bool
}

// Delay returns the time to wait before acting, or 0 if none is left. It counts from the reply of
// Redis, by the clock of this process.
func (r *Reservation) Delay() time.Duration {
	if r.wire == nil {
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
		return struct{}{}, r.wire.refund(engine.Unattended(ctx), cancel, r.part(r.permits)) // it cannot be repeated
	})
	return err
}

// part names permits of the reservation in the cancel script.
func (r *Reservation) part(permits int64) string {
	return strconv.FormatInt(permits, 10) + " " + r.receipt
}

// refund returns some of the permits of a caller that has waited for them.
func (r *Reservation) refund(ctx context.Context, permits int64) error {
	return r.wire.refund(ctx, cancel, r.part(permits))
}

// revokeLater is revoke in the background.
func (r *Reservation) revokeLater(ctx context.Context) {
	go func() { _ = r.revoke(engine.Unattended(ctx)) }()
}

// longestDelay is the longest that a reservation can be made for.
const longestDelay = (maxPermits - 1) * time.Microsecond
