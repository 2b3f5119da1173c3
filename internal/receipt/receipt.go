// Package receipt names the permits of a grant, so that a refund returns these and no others.
//
// Permits have no identity in Redis. A refund by number would free permits that others have taken:
// when the window of a grant is over, its permits have returned already. So a refund names the
// grant, or the epoch of its window or bucket, and changes nothing if that no longer counts.
package receipt

import (
	"context"
	"errors"

	"github.com/rratelimiter/rratelimiter/internal/hold"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Receipt is the permits that one request took. The zero Receipt has none.
type Receipt struct {
	Permits int64

	// Refund returns some of the permits. Call it once, or with redisx.Once: of a window, another call
	// returns further permits. It changes nothing after the window of the grant, or after a reset of the
	// limiter. The permits of a prefetch are refunded to Redis; the prefetch stays as
	// it is.
	Refund Refund

	// Local settles permits that Redis did not grant: it charges more of them, or with a number below 0
	// refunds some.
	Local func(more int64)

	// Hold is what the request holds until it is returned, whatever the final cost is: the calls above leave it as it
	// is. It is nil without a policy whose permits are held.
	Hold *hold.Hold
}

// Refund returns permits of one grant.
type Refund func(ctx context.Context, permits int64) error

// Charge takes permits, free or not.
type Charge func(ctx context.Context, permits int64) error

// Settle refunds or charges the difference between the permits and a final cost. charge is nil if the limiter has no
// such call. A settlement that is not possible is errors.ErrUnsupported. With an id, the calls may be made again after
// their replies were lost: see redisx.Once.
func (r Receipt) Settle(ctx context.Context, cost int64, id string, charge Charge) (err error) {
	more := cost - r.Permits
	switch {
	case more == 0:
		return nil
	case r.Local != nil:
		r.Local(more)
		return nil
	case more < 0 && r.Refund != nil:
		if id != "" {
			ctx = redisx.Once(ctx, id)
		}
		return r.Refund(ctx, -more)
	case more > 0 && charge != nil:
		return charge(ctx, more)
	}
	return errors.ErrUnsupported
}
