package limit

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// refund returns permits of one grant: of a caller that left or settles, or a lease. The grants with
// these receipts must still take them. It leaves leases as they are.
func (w *wire) refund(ctx context.Context, permits int64, receipts ...string) error {
	if !has(w.members, "release") { // as of a Pause, or of Redisson's layout
		return nil
	}
	_, err := engine.Refund(ctx, w.plan.client.Engine, w.dependsOn, w.returning(permits, receipts...))
	if errors.Is(err, redisx.ErrRanBefore) {
		return nil
	}
	return err
}

// returning returns the call that returns permits.
func (w *wire) returning(permits int64, receipts ...string) func(context.Context) (rueidis.RedisMessage, error) {
	return func(ctx context.Context) (rueidis.RedisMessage, error) {
		return w.run(ctx, release, []string{strconv.FormatInt(permits, 10)}, receipts...)
	}
}
