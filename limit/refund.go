package limit

import (
	"cmp"
	"context"
	"errors"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// refund returns permits of one grant: of a caller that left or settles, a lease or a reservation.
// With release, the grants with these receipts must still take them. With cancel, the permits have
// theirs. It leaves leases as they are.
func (w *wire) refund(ctx context.Context, c call, permits string, receipts ...string) error {
	return w.returnPermits(ctx, engine.Refund, c, permits, receipts...)
}

// returnPermits runs release or cancel, as engine.Change or engine.Refund. Limiters of Redisson's layout
// have neither.
func (w *wire) returnPermits(ctx context.Context, change func(context.Context, *engine.Engine, []string,
	func(context.Context) (rueidis.RedisMessage, error)) (rueidis.RedisMessage, error), c call, permits string,
	receipts ...string) error {
	if c == release && !has(w.members, "release") {
		return nil
	}
	run := func(ctx context.Context) (rueidis.RedisMessage, error) {
		return w.eval(ctx, c, []string{permits}, receipts...)
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
