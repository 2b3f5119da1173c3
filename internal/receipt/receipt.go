// Package receipt names the permits of a grant, so that a refund returns these and no others.
//
// Permits have no identity in Redis. A refund by number would free permits that others have taken:
// when the window of a grant is over, its permits have returned already. So a refund names the
// grant, or the epoch of its window or bucket, and changes nothing if that no longer counts.
package receipt

import (
	"cmp"
	"context"
	"errors"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Receipt is the permits that one request took. The zero Receipt has none.
type Receipt struct {
	Permits int64

	// Refund returns some of the permits. Call it once, or with redisx.Once: of a window, another call
	// returns further permits. It changes nothing after the window of the grant, or after a reset of the
	// limiter. The permits of a lease are refunded to Redis; the lease stays as
	// it is.
	Refund Refund

	// ReturnHeld returns permits of policies that hold them until they are returned, whatever the final cost
	// is, and only of these; nil without such a policy.
	ReturnHeld Refund

	// Local settles permits that Redis did not grant: it charges more of them, or with a number below 0
	// refunds some. Permits that are held are not charged.
	Local func(more int64)
}

// Refund returns permits of one grant.
type Refund func(ctx context.Context, permits int64) error

// Charge takes permits, free or not.
type Charge func(ctx context.Context, permits int64) error

// Settle refunds or charges the difference between the permits and a final cost, and returns what policies
// hold. charge is nil if the limiter has no such call. A settlement that is not possible is
// errors.ErrUnsupported. With an id, the calls may be made again after their replies were lost: see
// redisx.Once.
func (r Receipt) Settle(ctx context.Context, cost int64, id string, charge Charge) (err error) {
	once := func(part string) context.Context {
		if id == "" {
			return ctx
		}
		return redisx.Once(ctx, id+part)
	}
	more := cost - r.Permits
	if held := min(cost, r.Permits); r.ReturnHeld != nil && held > 0 { // the refund returns the rest of what is held
		err = r.ReturnHeld(once(" held"), held)
	}
	switch {
	case more == 0:
		return err
	case r.Local != nil:
		r.Local(more)
		return err
	case more < 0 && r.Refund != nil:
		return cmp.Or(err, r.Refund(once(""), -more))
	case more > 0 && charge != nil:
		return cmp.Or(err, charge(ctx, more))
	}
	return errors.ErrUnsupported
}
