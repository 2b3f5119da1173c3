package engine

import (
	"context"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
)

// TrySlot is Try with the receipt.Slot of ctx, which gets the receipt and whether Redis was asked, unless UpTo
// is set: such permits may be of several grants.
func (l *Limiter) TrySlot(ctx context.Context, ask Ask, result *Result) error {
	slot := receipt.SlotOf(ctx)
	if slot == nil || ask.UpTo > 0 {
		return l.Try(ctx, ask, result)
	}
	ask.Receipt, ask.Detail = true, true // a detailed reply has the time of the grant
	err := l.Try(ctx, ask, result)
	if err == nil && result.From != FromRedis {
		slot.SetFromMemory()
	}
	if err == nil && result.Allowed {
		slot.Put(receipt.Receipt{Permits: result.Granted, Refund: result.Refund, Return: result.Return})
	}
	return err
}

// WaitSlot is Wait with the receipt.Slot of ctx.
func (l *Limiter) WaitSlot(ctx context.Context, permits int64, deadline time.Time) (bool, error) {
	slot := receipt.SlotOf(ctx)
	var result Result
	granted, err := l.Wait(ctx, Ask{Permits: permits, Receipt: slot != nil}, deadline, &result)
	if result.From != FromRedis {
		slot.SetFromMemory()
	}
	if granted {
		slot.Put(receipt.Receipt{Permits: permits, Refund: result.Refund, Return: result.Return})
	}
	return granted, err
}
