package limit

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Release returns permits that are not needed, to every policy. A window no longer counts them, a
// bucket holds them again at once, and a [Smooth] is free earlier by their cost, but not before
// now. If reservations wait, they keep their times, and only permits that were taken after the last
// of them return; Reservation.Cancel returns a reservation. Release returns at most the permits
// that are taken. 0 does nothing, and less is [rratelimiter.ErrInvalidPermits].
func (l *Limiter) Release(ctx context.Context, permits int64) error {
	if permits < 0 || permits > maxPermits {
		return fmt.Errorf("%w: %d permits of %q to release, want 0 to 2^53", rratelimiter.ErrInvalidPermits, permits,
			l.Name())
	}
	if err := l.check(ctx); err != nil {
		return err
	}
	if permits == 0 {
		return nil
	}
	return l.release(ctx, permits, nil,
		func(ctx context.Context, _ int, p redisson) error { return p.limiter.Release(ctx, permits) })
}

// release returns permits to the members. With marks it is a refund: each member returns the
// permits that the grant with its mark still takes. Other does the same for a limiter of Redisson's
// layout.
func (w *wire) release(ctx context.Context, permits int64, marks []string,
	other func(ctx context.Context, member int, p redisson) error) error {
	var own []member
	var ownMarks []string
	for i, m := range w.members {
		p, ok := m.policy.(redisson)
		if !ok {
			own = append(own, m)
			if marks != nil {
				ownMarks = append(ownMarks, marks[i])
			}
		} else if err := other(ctx, i, p); err != nil {
			return err
		}
	}
	if own == nil {
		return nil
	}
	message, err := w.change(ctx, release, own, []string{strconv.FormatInt(permits, 10)}, ownMarks...)
	if err != nil || message.IsInt64() {
		return err
	}
	return w.strange(own, message)
}

// strange returns the error of an unexpected reply: the one that it reports, if any.
func (w *wire) strange(members []member, message rueidis.RedisMessage) error {
	if _, _, err := w.read(release, members, message); err != nil {
		return err
	}
	return w.unexpected(message)
}

// Charge takes permits whether they are free or not, for a cost that is known later: the bytes that
// were sent, or the tokens that a model used. If more is taken than there is, the debt is paid
// before anything is granted: Remaining is 0 until then, and RetryAfter includes it. The Decision
// is that of a request for one more permit; its Allowed reports whether one is free.
//
// Permits above 2^53 or below 1 are [rratelimiter.ErrInvalidPermits]. A Join with a
// *rratelimiter.Limiter is [ErrNotChargeable].
func (l *Limiter) Charge(ctx context.Context, permits int64) (rratelimiter.Decision, error) {
	if permits < 1 || permits > maxPermits {
		return rratelimiter.Decision{}, fmt.Errorf("%w: %d permits of %q to charge, want 1 to 2^53",
			rratelimiter.ErrInvalidPermits, permits, l.Name())
	}
	if err := l.check(ctx); err != nil {
		return rratelimiter.Decision{}, err
	}
	for _, m := range l.members {
		if _, ok := m.policy.(redisson); ok {
			return rratelimiter.Decision{}, fmt.Errorf("%w: %q is one, charge the others by themselves", ErrNotChargeable,
				m.name)
		}
	}
	observation := l.calls.Observe(permits)
	observation.Charged = true
	decision, err := l.charge(ctx, permits)
	observation.Report(ctx, err == nil, engine.FromRedis, err)
	return decision, err
}

func (l *Limiter) charge(ctx context.Context, permits int64) (rratelimiter.Decision, error) {
	o, err := engine.Charge(ctx, &l.calls, permits, func(ctx context.Context) (*state, error) {
		message, err := l.eval(ctx, charge, l.members, []string{strconv.FormatInt(permits, 10), newEpoch()})
		if err != nil {
			return nil, err
		}
		o, _, err := l.read(charge, l.members, message)
		return o, err
	})
	if err != nil {
		return rratelimiter.Decision{}, err
	}
	answer, _ := o.Denied(1)
	if answer.RetryAfter == 0 {
		answer = o.granted(0)
	}
	return rratelimiter.Decision(answer), nil
}

// Peek returns a Decision for each policy, whether one permit is free and the numbers, and changes
// nothing.
func (l *Limiter) Peek(ctx context.Context) ([]rratelimiter.Decision, error) {
	if err := l.check(ctx); err != nil {
		return nil, err
	}
	message, err := engine.Detach(ctx, func(ctx context.Context) (rueidis.RedisMessage, error) {
		return l.eval(ctx, peek, l.members, nil)
	})
	if err != nil {
		return nil, err
	}
	o, _, err := l.read(peek, l.members, message)
	if err != nil {
		return nil, err
	}
	return decisions(o.each(1, 0, false)), nil
}

// resetScript is a script because engine.Eval repeats those while a slot moves.
var resetScript = redisx.NewScript("return redis.call('UNLINK', unpack(KEYS))")

// Reset makes all permits free. The rate of a joined *rratelimiter.Limiter stays.
func (l *Limiter) Reset(ctx context.Context) error {
	if err := l.check(ctx); err != nil {
		return err
	}
	var keys []string
	for _, m := range l.members {
		if _, ok := m.policy.(redisson); ok {
			keys = append(keys, m.keys[1:]...)
		} else {
			keys = append(keys, m.keys...)
		}
	}
	_, err := engine.Change(ctx, l.client.Engine, l.calls.DependsOn, func(ctx context.Context) (int64, error) {
		message, err := l.client.Engine.Eval(ctx, resetScript, keys, nil, nil)
		if err != nil {
			return 0, l.Explain(ctx, err)
		}
		return message.AsInt64()
	})
	return err
}

// change runs a script that changes members of the limiter.
func (w *wire) change(ctx context.Context, c call, members []member, own []string,
	last ...string) (rueidis.RedisMessage, error) {
	return engine.Change(ctx, w.client.Engine, w.subjects, func(ctx context.Context) (rueidis.RedisMessage, error) {
		return w.eval(ctx, c, members, own, last...)
	})
}

// eval runs a script for members, and repeats it as often as the script wants. Its arguments are
// the time, its own, those of the members, and the last ones.
func (w *wire) eval(ctx context.Context, c call, members []member, own []string,
	last ...string) (rueidis.RedisMessage, error) {
	g := w.client.Engine
	var keys []string
	for _, m := range members {
		keys = append(keys, m.keys...)
	}
	dated := func() []string {
		now := g.Now()
		return arguments(append([]string{string(g.AppendMicros(nil, now))}, own...), members, now)
	}
	args := append(dated(), last...)
	for calls := 1; ; calls++ {
		message, err := g.Eval(ctx, scriptFor(c, members), keys, args, func(args []string) { copy(args, dated()) })
		if err != nil {
			return message, w.Explain(ctx, err)
		}
		next, again := goOn(c, members, message, args)
		if !again {
			return message, nil
		}
		if err := engine.Repeat(ctx, calls); err != nil {
			return message, w.Explain(ctx, err)
		}
		args = next
	}
}
