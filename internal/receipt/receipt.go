// Package receipt names the permits of a grant, so that a refund returns these and no others.
//
// Permits have no identity in Redis. A refund by number would free permits that others have taken:
// when the window of a grant is over, its permits have returned already. So a refund names the
// grant, and changes nothing if the grant no longer takes permits.
package receipt

import (
	"context"
	"errors"
)

// Receipt is the permits that one request took. The zero Receipt has none.
type Receipt struct {
	Permits int64

	// Refund returns some of the permits, once. It changes nothing after the window of the grant, or
	// after a reset of the limiter. The permits of a lease are refunded to Redis; the lease stays as
	// it is.
	Refund Refund

	// Local settles permits that Redis did not grant: it charges more of them, or with a number below 0
	// refunds some.
	Local func(more int64)
}

// Refund returns permits of one grant.
type Refund func(ctx context.Context, permits int64) error

// Charge takes permits, free or not.
type Charge func(ctx context.Context, permits int64) error

// Settle refunds or charges the difference between the permits and a final cost. charge is nil if the
// limiter has no such call. A settlement that is not possible is errors.ErrUnsupported.
func (r Receipt) Settle(ctx context.Context, cost int64, charge Charge) error {
	switch more := cost - r.Permits; {
	case more == 0:
		return nil
	case r.Local != nil:
		r.Local(more)
		return nil
	case more < 0 && r.Refund != nil:
		return r.Refund(ctx, -more)
	case more > 0 && charge != nil:
		return charge(ctx, more)
	}
	return errors.ErrUnsupported
}
