// Package everycall lists the calls of a Limiter, for tests of all calls.
package everycall

import (
	"context"
	"time"

	"github.com/rratelimiter/rratelimiter"
)

// Of returns all calls of a limiter that are sent to Redis. Those that set a rate set this one, and
// those that copy or rename it use the new name.
func Of(l *rratelimiter.Limiter, rate rratelimiter.Rate, newName string) map[string]func(context.Context) error {
	errOf := func(_ any, err error) error { return err }
	return map[string]func(context.Context) error{
		"TrySetRate":       func(ctx context.Context) error { return errOf(l.TrySetRate(ctx, rate)) },
		"SetRate":          func(ctx context.Context) error { return l.SetRate(ctx, rate) },
		"UpdateRate":       func(ctx context.Context) error { return errOf(l.UpdateRate(ctx, rate)) },
		"Config":           func(ctx context.Context) error { return errOf(l.Config(ctx)) },
		"TryAcquire":       func(ctx context.Context) error { return errOf(l.TryAcquire(ctx, 1)) },
		"TryAcquireWithin": func(ctx context.Context) error { return errOf(l.TryAcquireWithin(ctx, 1, time.Minute)) },
		"TakeWithin":       func(ctx context.Context) error { return errOf(l.TakeWithin(ctx, 1, time.Minute)) },
		"Acquire":          func(ctx context.Context) error { return l.Acquire(ctx, 1) },
		"Take":             func(ctx context.Context) error { return errOf(l.Take(ctx, 1)) },
		"Release":          func(ctx context.Context) error { return l.Release(ctx, 1) },
		"AvailablePermits": func(ctx context.Context) error { return errOf(l.AvailablePermits(ctx)) },
		"Exists":           func(ctx context.Context) error { return errOf(l.Exists(ctx)) },
		"Delete":           func(ctx context.Context) error { return errOf(l.Delete(ctx)) },
		"Unlink":           func(ctx context.Context) error { return errOf(l.Unlink(ctx)) },
		"Expire":           func(ctx context.Context) error { return errOf(l.Expire(ctx, time.Hour)) },
		"ExpireAt":         func(ctx context.Context) error { return errOf(l.ExpireAt(ctx, time.Now().Add(time.Hour))) },
		"ClearExpire":      func(ctx context.Context) error { return errOf(l.ClearExpire(ctx)) },
		"RemainTimeToLive": func(ctx context.Context) error { return errOf(l.RemainTimeToLive(ctx)) },
		"ExpireTime":       func(ctx context.Context) error { return errOf(l.ExpireTime(ctx)) },
		"Touch":            func(ctx context.Context) error { return errOf(l.Touch(ctx)) },
		"SizeInMemory":     func(ctx context.Context) error { return errOf(l.SizeInMemory(ctx)) },
		"Rename":           func(ctx context.Context) error { return l.Rename(ctx, newName) },
		"RenameNX":         func(ctx context.Context) error { return errOf(l.RenameNX(ctx, newName)) },
		"Copy":             func(ctx context.Context) error { return errOf(l.Copy(ctx, newName)) },
	}
}

// Acquirer is a Limiter of package rratelimiter or limit.
type Acquirer interface {
	Acquire(ctx context.Context, permits int64) error
	TryAcquireWithin(ctx context.Context, permits int64, timeout time.Duration) (bool, error)
	Take(ctx context.Context, permits int64) (rratelimiter.Decision, error)
	TryAcquire(ctx context.Context, permits int64) (bool, error)
}

// Waits reports whether the call of Acquire that i selects waits for permits.
func Waits(i int) bool { return i%4 < 2 }

// Acquire takes permits by one of four calls, which i selects, and reports whether it got them.
func Acquire(ctx context.Context, l Acquirer, i int, permits int64, timeout time.Duration) (bool, error) {
	switch i % 4 {
	case 0:
		err := l.Acquire(ctx, permits)
		return err == nil, err
	case 1:
		return l.TryAcquireWithin(ctx, permits, timeout)
	case 2:
		decision, err := l.Take(ctx, permits)
		return decision.Allowed, err
	default:
		return l.TryAcquire(ctx, permits)
	}
}
