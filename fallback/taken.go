package fallback

import (
	"context"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Name returns the name of the wrapped limiter, "" without one. With it, a [limit.Taken] takes from a
// Limiter: Settle settles with Redis, or with the local share, depending on which granted. What the
// mode [Open] granted needs no settlement.
func (l *Limiter) Name() string {
	if l.limiter == nil {
		return ""
	}
	return l.limiter.Name()
}

func init() {
	policy.Fallback = func(limiter any) any {
		if l, ok := limiter.(*Limiter); ok {
			return ofTaken{l}
		}
		return nil
	}
}

// ofTaken is a Limiter as limit.Taken calls it.
type ofTaken struct{ *Limiter }

// Wrapped returns the limiter that Redis decides by.
func (l ofTaken) Wrapped() limit.Joinable { return l.limiter }

func (l ofTaken) Take(ctx context.Context, permits int64) (rratelimiter.Decision, error) {
	d, _, err := l.Limiter.Take(ctx, permits)
	return d, err
}

func (l ofTaken) Acquire(ctx context.Context, permits int64) error {
	_, err := l.Limiter.Acquire(ctx, permits)
	return err
}
