package limit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Release returns permits that are not needed, to every policy but an [InFlight]. A window no longer counts them, a
// bucket holds them again at once, and a [Smooth] is free earlier by their cost, but not before
// now. Release returns a number of permits, and names no grant. So release permits only in the
// window in which they were taken. When it is over they have returned, and Release would free those
// of other callers. The Settle of the middleware refunds exactly those of a request. Release
// returns at most the permits that are taken. 0 does nothing, and less is
// [rratelimiter.ErrInvalidPermits].
//
// An InFlight stays as it is, since a number names no place: Settle of a [Taken] returns it. Without another
// policy, Release is ErrNotReleasable.
func (l *Limiter) Release(ctx context.Context, permits int64) error {
	if permits < 0 || permits > maxPermits {
		return fmt.Errorf("%w: %d permits of %q to release, want 0 to 2^53", rratelimiter.ErrInvalidPermits, permits,
			l.protocol.name)
	}
	if err := l.check(ctx); err != nil || permits == 0 {
		return err
	}
	for _, m := range l.protocol.members {
		if m.redisson != nil {
			if err := m.redisson.Release(ctx, permits); err != nil {
				return err
			}
		}
	}
	if !has(l.protocol.members, "release") { // as of a Pause, or of Redisson's layout
		if slices.ContainsFunc(l.protocol.members, isHeld) && !slices.ContainsFunc(l.protocol.members, isRedisson) {
			return fmt.Errorf("%w: %q has nothing else: take its permits with a Taken, whose Settle returns them",
				ErrNotReleasable, l.Name())
		}
		return nil
	}
	_, err := engine.ChangeLimiters(ctx, l.protocol.plan.client.Engine, l.protocol.dependsOn,
		l.protocol.returning(permits, grant{}))
	return err
}

// Charge takes permits whether they are free or not, for a cost that is known later: the bytes that
// were sent, or the tokens that a model used. If more is taken than there is, the debt is paid
// before anything is granted: Remaining is 0 until then, and RetryAfter includes it. The Decision
// is that of a request for one more permit; its Allowed reports whether one is free. Charge leaves an [InFlight] as it
// is.
//
// Permits above 2^53 or below 1 are [rratelimiter.ErrInvalidPermits]. A Join with a
// *rratelimiter.Limiter is [ErrNotChargeable], and so is a limiter without another policy than InFlight.
func (l *Limiter) Charge(ctx context.Context, permits int64) (rratelimiter.Decision, error) {
	if permits < 1 || permits > maxPermits {
		return rratelimiter.Decision{}, fmt.Errorf("%w: %d permits of %q to charge, want 1 to 2^53",
			rratelimiter.ErrInvalidPermits, permits, l.Name())
	}
	if err := l.check(ctx); err != nil {
		return rratelimiter.Decision{}, err
	}
	if i := slices.IndexFunc(l.protocol.members, isRedisson); i >= 0 {
		return rratelimiter.Decision{}, fmt.Errorf("%w: %q is one, charge the others by themselves", ErrNotChargeable,
			l.protocol.members[i].name)
	}
	counts := func(m member) bool { return !isHeld(m) && m.described.Refill != policy.Pausing }
	if slices.ContainsFunc(l.protocol.members, isHeld) && !slices.ContainsFunc(l.protocol.members, counts) {
		return rratelimiter.Decision{}, fmt.Errorf("%w: the permits of %q are held: take them with a Taken", ErrNotChargeable,
			l.Name())
	}
	s, err := l.charge(ctx, permits, "")
	if err != nil {
		return rratelimiter.Decision{}, err
	}
	return s.next(), nil
}

// next returns the Decision of a request for one permit.
func (s *state) next() rratelimiter.Decision {
	answer, _ := s.Denied(1)
	if answer.RetryAfter == 0 {
		answer = s.Granted(0)
	}
	return rratelimiter.Decision(answer)
}

// charge charges permits. With an id it does so once, however often it is called.
func (l *Limiter) charge(ctx context.Context, permits int64, id string) (*state, error) {
	observation := l.calls.Observe(permits)
	observation.Charged = true
	s, err := engine.Charge(ctx, &l.calls, permits, func(ctx context.Context) (*state, error) {
		if id != "" {
			ctx = redisx.Once(ctx, id) // not for the releases of prefetches before and after
		}
		return l.protocol.stateAfter(ctx, chargeCall, strconv.FormatInt(permits, 10))
	})
	if errors.Is(err, redisx.ErrRanBefore) {
		err = nil
	}
	observation.Report(ctx, true, engine.FromRedis, err)
	return s, err
}

// chargeMore charges what a settlement has used beyond the permits that it has taken.
func (l *Limiter) chargeMore(ctx context.Context, more int64, id string) (err error) {
	if own := l.chargeable(); own != nil {
		_, err = own.charge(ctx, more, id)
	}
	if err == nil && slices.ContainsFunc(l.protocol.members, isRedisson) {
		return fmt.Errorf("%w: it keeps what was taken", ErrNotChargeable)
	}
	return err
}

// chargeable returns the limiter without the members that a settlement does not charge: those of
// Redisson's layout, and those that hold permits. It returns nil if there are no others.
func (l *Limiter) chargeable() *Limiter {
	own := slices.DeleteFunc(slices.Clone(l.protocol.members), func(m member) bool { return isRedisson(m) || isHeld(m) })
	switch len(own) {
	case 0:
		return nil
	case len(l.protocol.members):
		return l
	}
	return openMembers(l.protocol.plan.client, l.protocol.name, own)
}

// Drain takes free permits until at most so many are free, as a provider's own count may require: it
// knows of requests by other programs. It takes the same number of all policies, as a grant does. In a [Join]
// it drains each limiter that has more. It never returns permits, so with the same number again it changes
// nothing. The places of an [InFlight] stay free. If it takes nothing, its times are those of [Limiter.Peek].
//
// The Decision is that of a request for one permit; its Allowed reports whether one is free. A number below 0
// is [rratelimiter.ErrInvalidPermits].
func (l *Limiter) Drain(ctx context.Context, leave int64) (rratelimiter.Decision, error) {
	if leave < 0 {
		return rratelimiter.Decision{}, fmt.Errorf("%w: %d permits of %q to leave, want 0 or more",
			rratelimiter.ErrInvalidPermits, leave, l.Name())
	}
	if err := l.check(ctx); err != nil {
		return rratelimiter.Decision{}, err
	}
	own := strconv.FormatInt(min(leave, maxPermits), 10)
	s, err := engine.ChangeLimiters(ctx, l.protocol.plan.client.Engine, l.protocol.dependsOn,
		func(ctx context.Context) (*state, error) { return l.protocol.stateAfter(ctx, drainCall, own) })
	if err != nil {
		return rratelimiter.Decision{}, err
	}
	return s.next(), nil
}

// Peek returns a Decision for each policy, whether one permit is free and the numbers, and changes
// nothing. It does not prolong a state either: after a change to a lower rate, its times end with the key, until a
// call takes permits or is denied.
func (l *Limiter) Peek(ctx context.Context) ([]rratelimiter.Decision, error) {
	if err := l.check(ctx); err != nil {
		return nil, err
	}
	s, err := engine.Detach(ctx, func(ctx context.Context) (*state, error) { return l.protocol.stateAfter(ctx, peekCall) })
	if err != nil {
		return nil, err
	}
	return decisions(s.Parts(1)), nil
}

// resetScript is a script because engine.Eval repeats those while a slot moves.
var resetScript = redisx.NewScript("return redis.call('UNLINK', unpack(KEYS))")

// Reset makes all permits free. The rate of a joined *rratelimiter.Limiter stays.
func (l *Limiter) Reset(ctx context.Context) error {
	if err := l.check(ctx); err != nil {
		return err
	}
	var keys []string
	for _, m := range l.protocol.members {
		if m.redisson != nil {
			keys = append(keys, m.keys[1:]...) // the first holds the rate
		} else {
			keys = append(keys, m.keys...)
		}
	}
	_, err := engine.ChangeLimiters(ctx, l.protocol.plan.client.Engine, l.protocol.dependsOn,
		func(ctx context.Context) (rueidis.RedisMessage, error) {
			run := &engine.Run{Call: redisx.Call{Script: resetScript, Keys: keys}}
			return l.protocol.plan.client.Engine.Eval(ctx, &l.protocol, run, nil, nil)
		})
	return err
}

// ErrNotPausable is returned by Pause of a limiter without a [Pause].
var ErrNotPausable = errors.New("limit: the limiter has no Pause")

// Pause denies everything for a time from now on, in all processes that share the limiter. A longer
// pause stays, and a time above Most of the limiter's [Pause] is cut to Most. 0 ends the pause at
// once, and a [Penalty] too. Pause takes no permits and returns none.
//
// Callers of Acquire and TryAcquireWithin wait for the end. If another Client ends the pause, they
// learn it within five seconds. A call that is under way when the pause begins may be granted.
// Prefetches of this Client end before the pause is sent; those of other Clients serve their callers up
// to their end, for [rratelimiter.WithPrefetch] at most a second. Other Clients with a denial cache
// learn that a pause was ended when their denial is too old.
//
// A pause of a Join is one of each member with a Pause. If their Most differ, the shortest counts.
// Reset ends a pause.
//
// Errors: [ErrNotPausable]; [rratelimiter.ErrInvalidOption] for a time below 0;
// *[rratelimiter.StateError] if the key holds other data. If Redis fails during the call, the pause
// may have begun.
func (l *Limiter) Pause(ctx context.Context, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%w: a pause of %v for %q, want 0 or more", rratelimiter.ErrInvalidOption, d, l.Name())
	}
	if err := l.check(ctx); err != nil {
		return err
	}
	var keys []string
	for _, m := range l.protocol.members {
		if p, ok := m.policy.(Pause); ok {
			keys, d = append(keys, m.keys...), min(d, p.Most)
		} else if isPenalty(m) && d == 0 {
			keys = append(keys, m.keys...)
		}
	}
	if keys == nil {
		return fmt.Errorf("%w: open %q with a Pause beside its policies", ErrNotPausable, l.Name())
	}
	// Rounded up, so that a short pause does not end one.
	length := strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
	_, err := engine.ChangeLimiters(ctx, l.protocol.plan.client.Engine, keys,
		func(ctx context.Context) (rueidis.RedisMessage, error) {
			return l.protocol.run(ctx, pauseCall, func() []string { return []string{length} })
		})
	return err
}
