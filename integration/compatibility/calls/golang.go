package calls

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter"
)

type golang struct{ l *rratelimiter.Limiter }

// Go returns a limiter of this library.
func Go(l *rratelimiter.Limiter) Library { return golang{l} }

func (golang) String() string { return "Go" }

func (g golang) Do(ctx context.Context, c Call) (Reply, error) {
	reply, err := g.do(ctx, c)
	switch {
	case errors.Is(err, rratelimiter.ErrInvalidPermits), errors.Is(err, rratelimiter.ErrInvalidRate):
		return Refused, nil
	case errors.Is(err, rratelimiter.ErrPermitsExceedRate):
		return AboveRate, nil
	case errors.Is(err, rratelimiter.ErrNotInitialized):
		switch c.Op {
		case Rename, RenameNX, Copy, CopyAndReplace:
			return NoLimiter, nil
		}
		return NotInitialized, nil
	case errors.Is(err, rratelimiter.ErrUnsupported):
		return Lacking, nil
	case err != nil:
		return "", fmt.Errorf("go, %v: %w", c, err)
	}
	return reply, nil
}

var conditions = map[Op]rratelimiter.ExpireOption{ExpireIfSet: rratelimiter.IfSet,
	ExpireIfNotSet: rratelimiter.IfNotSet, ExpireIfGreater: rratelimiter.IfGreater, ExpireIfLess: rratelimiter.IfLess}

func (g golang) do(ctx context.Context, c Call) (Reply, error) {
	l := g.l
	rate := rratelimiter.Rate{Permits: c.Permits, Interval: c.Interval, KeepAlive: c.KeepAlive}
	if c.PerClient {
		rate.Type = rratelimiter.PerClient
	}
	var keep []rratelimiter.SetRateOption
	if c.KeepState {
		keep = append(keep, rratelimiter.KeepState())
	}
	at := time.Now().Add(c.Expiry)
	switch c.Op {
	case TrySetRate:
		return truth(l.TrySetRate(ctx, rate))
	case SetRate, SetRateArgs:
		return nothing(l.SetRate(ctx, rate, keep...))
	case UpdateRate:
		return truth(l.UpdateRate(ctx, rate, keep...))
	case GetConfig:
		got, err := l.Config(ctx)
		return rateReply(got.Type.String(), got.Permits, got.Interval), err
	case TryAcquireOne:
		return truth(l.TryAcquire(ctx, 1))
	case TryAcquire:
		return truth(l.TryAcquire(ctx, c.Permits))
	case TryAcquireUntil:
		return truth(l.TryAcquireWithin(ctx, c.Permits, c.Timeout))
	case Take:
		d, err := l.Take(ctx, c.Permits)
		return Decision(d.Allowed, d.Limit, d.Remaining, d.RetryAfter, d.ResetAfter), err
	case Acquire:
		return nothing(l.Acquire(ctx, c.Permits))
	case Release:
		return nothing(l.Release(ctx, c.Permits))
	case AvailablePermits:
		return number(l.AvailablePermits(ctx))
	case Expire:
		return truth(l.Expire(ctx, c.Expiry))
	case ExpireAt:
		return truth(l.ExpireAt(ctx, at))
	case ExpireIfSet, ExpireIfNotSet, ExpireIfGreater, ExpireIfLess:
		return truth(l.Expire(ctx, c.Expiry, conditions[c.Op]))
	case ExpireAtIfSet, ExpireAtIfNotSet, ExpireAtIfGreater, ExpireAtIfLess:
		return truth(l.ExpireAt(ctx, at, conditions[c.Op.WithoutInstant()]))
	case ClearExpire:
		return truth(l.ClearExpire(ctx))
	case RemainTimeToLive:
		ttl, err := l.RemainTimeToLive(ctx)
		if ttl == rratelimiter.NeverExpires || ttl == rratelimiter.DoesNotExist {
			return number(int64(ttl), err)
		}
		return lifetime(ttl.Milliseconds()), err
	case ExpireTime:
		when, err := l.ExpireTime(ctx)
		if when.IsZero() {
			// Go returns the same for -1 and -2; the time to live distinguishes them.
			ttl, ttlErr := l.RemainTimeToLive(ctx)
			return number(int64(ttl), errors.Join(err, ttlErr))
		}
		return lifetime(time.Until(when).Milliseconds()), err
	case Exists:
		return truth(l.Exists(ctx))
	case Delete:
		return truth(l.Delete(ctx))
	case Unlink:
		return truth(l.Unlink(ctx))
	case Rename:
		return nothing(l.Rename(ctx, c.NewName))
	case RenameNX:
		return truth(l.RenameNX(ctx, c.NewName))
	case Copy:
		return truth(l.Copy(ctx, c.NewName))
	case CopyAndReplace:
		return truth(l.Copy(ctx, c.NewName, rratelimiter.Replace()))
	case Touch:
		return truth(l.Touch(ctx))
	case SizeInMemory:
		size, err := l.SizeInMemory(ctx)
		return truth(size > 0, err)
	}
	return "", fmt.Errorf("no such call: %q", c.Op)
}
