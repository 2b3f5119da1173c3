package fallback

import (
	"context"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
)

// Name returns the name of the wrapped limiter, "" without one. With it, a [limit.Taken] takes from a
// Limiter: Settle settles with Redis, or with the local share, depending on which granted. What the
// mode [limit.Open] granted needs no settlement.
func (l *Limiter) Name() string {
	if l.limiter == nil {
		return ""
	}
	return l.limiter.Name()
}

// sealed is the ofTaken of a Limiter.
type sealed = inside.Sealed

// ofTaken is a Limiter as a limit.Taken calls it.
type ofTaken Limiter

// Take takes permits, or waits for them as TakeWithin and Acquire do.
func (l *ofTaken) Take(ctx context.Context, permits int64, wait time.Duration) (engine.Answer, receipt.Receipt, error) {
	a, _, err := (*Limiter)(l).decide(ctx, permits, wait)
	return engine.Answer(a.Decision), a.Receipt, err
}

// Wrapped returns the limiter that Redis decides by.
func (l *ofTaken) Wrapped() any { return l.limiter }
