package limit

import (
	"cmp"
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
	return w.returnPermits(ctx, engine.Refund, permits, receipts...)
}

// returnPermits runs release, as engine.Change or engine.Refund. Limiters of Redisson's layout have none.
func (w *wire) returnPermits(ctx context.Context, change func(context.Context, *engine.Engine, []string,
	func(context.Context) (rueidis.RedisMessage, error)) (rueidis.RedisMessage, error), permits int64,
	receipts ...string) error {
	if !has(w.members, "release") {
		return nil
	}
	run := func(ctx context.Context) (rueidis.RedisMessage, error) {
		return w.eval(ctx, release, []string{strconv.FormatInt(permits, 10)}, receipts...)
	}
	message, err := change(ctx, w.plan.client.Engine, w.dependsOn, run)
	if errors.Is(err, redisx.ErrRanBefore) {
		return nil
	}
	if err != nil || message.IsInt64() {
		return err
	}
	_, _, err = w.read(message) // why it stopped
	return cmp.Or(err, w.unexpected(message))
}
