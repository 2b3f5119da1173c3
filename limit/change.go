package limit

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// Release gives back permits that were taken and are not needed, to every policy: a window counts them no more, a bucket holds
// them again at once, and a [Smooth] is free so much earlier, but not before now. It gives back no more than was taken; 0 does nothing. Below 0 is [rratelimiter.ErrInvalidPermits].
func (l *Limiter) Release(ctx context.Context, permits int64) error {
	if permits < 0 || permits > maxPermits {
		return fmt.Errorf("%w: %d permits of %q to release, want 0 to 2^53", rratelimiter.ErrInvalidPermits, permits, l.Name())
	}
	if err := l.check(ctx); err != nil {
		return err
	}
	if permits == 0 {
		return nil
	}
	return l.release(ctx, permits, "")
}

// release gives permits back, of the call at a time, or where that is "" whichever.
func (l *Limiter) release(ctx context.Context, permits int64, dated string) error {
	return l.done(l.change(ctx, release, strconv.FormatInt(permits, 10), dated))
}

// done reads the reply of a script that tells nothing.
func (l *Limiter) done(message rueidis.RedisMessage, err error) error {
	if err != nil || message.IsInt64() {
		return err
	}
	_, _, err = l.read(message)
	if err == nil {
		err = l.unexpected(message)
	}
	return err
}

// Charge takes permits whether they are free or not, for a cost that is known only afterwards: the bytes that were sent, the
// tokens that a model has used. What is taken so above what there is has to come back before anything is granted: Remaining
// is 0 until then, and RetryAfter counts it. The Decision is that of a request for one permit more; its Allowed says
// whether one is left.
//
// Permits above 2^53 or below 1 are [rratelimiter.ErrInvalidPermits].
func (l *Limiter) Charge(ctx context.Context, permits int64) (rratelimiter.Decision, error) {
	if permits < 1 || permits > maxPermits {
		return rratelimiter.Decision{}, fmt.Errorf("%w: %d permits of %q to charge, want 1 to 2^53", rratelimiter.ErrInvalidPermits, permits, l.Name())
	}
	if err := l.check(ctx); err != nil {
		return rratelimiter.Decision{}, err
	}
	message, err := l.change(ctx, charge, strconv.FormatInt(permits, 10))
	if err != nil {
		return rratelimiter.Decision{}, err
	}
	o, _, err := l.read(message)
	if err != nil {
		return rratelimiter.Decision{}, err
	}
	answer, _ := o.denied(1, 0)
	answer.Allowed = answer.RetryAfter == 0
	return rratelimiter.Decision(answer), nil
}

// Peek is [Limiter.TakeEach] that takes nothing and changes nothing: whether one permit is free by each policy, and their
// numbers.
func (l *Limiter) Peek(ctx context.Context) ([]rratelimiter.Decision, error) {
	if err := l.check(ctx); err != nil {
		return nil, err
	}
	message, err := engine.Detached(ctx, func(ctx context.Context) (rueidis.RedisMessage, error) { return l.eval(ctx, peek) })
	if err != nil {
		return nil, err
	}
	o, _, err := l.read(message)
	if err != nil {
		return nil, err
	}
	return decisions(o.each(1, 0, false)), nil
}

// Reset forgets all that was taken.
func (l *Limiter) Reset(ctx context.Context) error {
	if err := l.check(ctx); err != nil {
		return err
	}
	_, err := engine.Changing(ctx, l.client.Engine, l.keys, func(ctx context.Context) (int64, error) {
		redis := l.client.Engine.Redis()
		n, err := redis.Do(ctx, redis.B().Unlink().Key(l.keys...).Build()).AsInt64()
		if err != nil {
			err = (*protocol)(l).Explain(ctx, err)
		}
		return n, err
	})
	return err
}

// change runs a script that changes the limiter.
func (l *Limiter) change(ctx context.Context, c call, args ...string) (rueidis.RedisMessage, error) {
	return engine.Changing(ctx, l.client.Engine, l.keys, func(ctx context.Context) (rueidis.RedisMessage, error) {
		return l.eval(ctx, c, args...)
	})
}

// eval runs a script, with the time before its own arguments and those of the policies behind them.
func (l *Limiter) eval(ctx context.Context, c call, args ...string) (rueidis.RedisMessage, error) {
	g := l.client.Engine
	arguments := func() []string {
		now := g.Now()
		all := append([]string{string(g.AppendMicros(nil, now))}, args...)
		for _, p := range l.policies {
			all = p.arguments(all, now)
		}
		return all
	}
	message, err := g.Eval(ctx, scriptFor(c, l.policies), l.keys, arguments(), func(args []string) { copy(args, arguments()) })
	if err != nil {
		err = (*protocol)(l).Explain(ctx, err)
	}
	return message, err
}
