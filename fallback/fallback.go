// Package fallback limits calls that are not HTTP or gRPC, also while Redis is away. It gives Redis a
// deadline for each decision, and decides without Redis if it fails or does not answer: as a [limit.FailureMode]
// says.
//
//	quota := limit.New(client, "paid-api", limit.SlidingLog{Permits: 100, Interval: time.Minute})
//	limiter := fallback.New(quota, fallback.OnFailure(limit.Local(0.1)))
//	from, err := limiter.Acquire(ctx, 1)
//
// Each call reports the [rratelimiter.Source] of its decision. Options are words without a prefix, such as
// [Deadline], as in package httplimit.
package fallback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Limiter is a limiter that decides while Redis is away too. It is safe for concurrent use.
//
// During an outage of the limiter's node of Redis, the [limit.FailureMode] decides at once, and no caller
// waits for Redis. The page [Failure modes] defines an outage.
//
// [Failure modes]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/reliability.md#failure-modes
type Limiter struct {
	sealed
	guard   *outage.Guard
	mode    limit.FailureMode
	limiter limit.Joinable
}

// The sources beside [rratelimiter.FromRedis], which are also the prefetches and the denial cache of the Client here.
const (
	FromShare rratelimiter.Source = "share" // the local share of the limit, see [limit.Local]
	FromMode  rratelimiter.Source = "mode"  // [limit.Open] or [limit.Closed], without any count
)

// ErrClosed is part of the error of a call that Redis did not decide, and that the mode refuses. The
// error of Redis is part of it too.
var ErrClosed = errors.New("fallback: Redis did not decide, so the permits are refused")

// New wraps a *[limit.Limiter] or a *[rratelimiter.Limiter]. With a nil limiter, only [Limiter.With] can be called.
//
// Open one for a limiter and keep it: it knows whether Redis is up, and what its share has granted.
// With [limit.Local], a *[rratelimiter.Limiter] needs an InitialRate, and New panics without one. It
// panics too if the client, the name or a policy of the limiter is invalid.
func New(limiter limit.Joinable, options ...Option) *Limiter {
	s := settings{gate.NewSettings()}
	for _, option := range options {
		if option != nil {
			option(&s)
		}
	}
	gate.MustCheck("fallback: New", limiter)
	gate.MustShare("fallback: New", s.Mode, limiter)
	return open(s.OpenGuard(), s.Mode, limiter)
}

// With returns a Limiter for another limiter of the same Redis. Both have the same options, know
// together whether Redis is up, and each has a share of its own. So there can be one for each key of a
// [limit.Keyed]: With is cheap.
func (l *Limiter) With(limiter limit.Joinable) *Limiter {
	return open(l.guard, l.mode, limiter)
}

func open(guard *outage.Guard, mode limit.FailureMode, limiter limit.Joinable) *Limiter {
	l := &Limiter{guard: guard, mode: mode, limiter: limiter}
	l.sealed = inside.New((*ofTaken)(l))
	return l
}

// Take takes permits if they are free now, and returns the numbers. It never waits longer than the
// [Deadline]. The Decision of the mode [limit.Open] has only Allowed. If the mode refuses, the error is
// [ErrClosed]. Invalid arguments, a limiter without a rate and ctx have the errors of the wrapped
// limiter, in every mode.
func (l *Limiter) Take(ctx context.Context, permits int64) (rratelimiter.Decision, rratelimiter.Source,
	error) {
	a, from, err := l.decide(ctx, permits, 0)
	return a.Decision, from, err
}

// TryAcquire is [Limiter.Take] without the numbers.
func (l *Limiter) TryAcquire(ctx context.Context, permits int64) (bool, rratelimiter.Source, error) {
	return l.TryAcquireWithin(ctx, permits, 0)
}

// TryAcquireWithin takes permits as soon as they are free, if that is within the timeout. It returns
// false at once if that is not possible. If Redis fails or hangs meanwhile, the mode decides; with
// [limit.Local], the caller waits for the share, and for Redis again as soon as that answers.
func (l *Limiter) TryAcquireWithin(ctx context.Context, permits int64, timeout time.Duration) (bool,
	rratelimiter.Source, error) {
	a, from, err := l.decide(ctx, permits, max(0, timeout))
	return a.Decision.Allowed, from, err
}

// TakeWithin is [Limiter.TryAcquireWithin] with the numbers, as [limit.Limiter.TakeWithin] has them.
func (l *Limiter) TakeWithin(ctx context.Context, permits int64, timeout time.Duration) (rratelimiter.Decision,
	rratelimiter.Source, error) {
	a, from, err := l.decide(ctx, permits, max(0, timeout))
	return a.Decision, from, err
}

// Acquire is [Limiter.TryAcquireWithin] without a timeout: it waits until ctx ends. If it fails, it
// holds no permits.
func (l *Limiter) Acquire(ctx context.Context, permits int64) (rratelimiter.Source, error) {
	_, from, err := l.decide(ctx, permits, inside.Forever)
	return from, err
}

// decide takes permits, or waits for them. An Answer without an error is complete, with its Receipt.
func (l *Limiter) decide(ctx context.Context, permits int64, wait time.Duration) (a outage.Answer,
	from rratelimiter.Source, err error) {
	switch {
	case l.limiter == nil:
		return a, "", fmt.Errorf("%w: fallback: the limiter is nil", rratelimiter.ErrNoClient)
	case permits < 1:
		return a, "", fmt.Errorf("%w: %d permits of %q requested, want at least 1", rratelimiter.ErrInvalidPermits, permits,
			l.limiter.Name())
	case ctx.Err() != nil:
		return a, "", ctx.Err()
	}
	a = l.guard.Decide(ctx, outage.Demand{Limiter: l.limiter, Permits: permits, Mode: l.mode, Wait: wait})
	switch {
	case a.Result == limit.Canceled, outage.IsMistake(a.Err):
		return outage.Answer{}, "", a.Err
	case a.Result == limit.FailedOpen:
		a.Decision = rratelimiter.Decision{Allowed: true}
		a.Receipt = receipt.Receipt{Permits: permits, Local: func(int64) {}} // there is nothing to settle
		return a, FromMode, nil
	case a.Result == limit.FailedClosed:
		return outage.Answer{}, FromMode, fmt.Errorf("%w: limiter %q: %w", ErrClosed, l.limiter.Name(), a.Err)
	case a.Local:
		from = FromShare
	default:
		from, err = rratelimiter.FromRedis, a.Err
	}
	if wait == inside.Forever && err == nil && !a.Decision.Allowed {
		err = fmt.Errorf("%w: %d permits of %q are not free", ErrClosed, permits, l.limiter.Name())
	}
	return a, from, err
}

// Option is a setting of [New].
type Option func(*settings)

type settings struct{ gate.Settings }

// OnFailure sets the failure mode.
func OnFailure(mode limit.FailureMode) Option {
	return common(gate.OnFailure("fallback", mode))
}

// Deadline sets the time that Redis has for one answer, 500 ms by default. The wait for
// permits is not part of it: while callers wait, Redis is asked once in each Deadline whether it is
// there.
func Deadline(d time.Duration) Option { return common(gate.Deadline("fallback", d)) }

// OnRedisChange sets a callback for each outage of a node of Redis. up is false with the error that began
// it, and true at its end. err is then nil if the node answers, and reports if its slots have moved to
// another node instead. node is the address of the node, empty if it is unknown. Calls come in
// order, one at a time.
func OnRedisChange(changed func(node string, up bool, err error)) Option {
	return common(func(s *gate.Settings) { s.Changed = changed })
}

func common(change gate.Setting) Option { return func(s *settings) { change(&s.Settings) } }

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
func (l *ofTaken) Take(ctx context.Context, permits int64, wait time.Duration) (
	engine.Decision, receipt.Receipt, error) {
	a, _, err := (*Limiter)(l).decide(ctx, permits, wait)
	return engine.Decision(a.Decision), a.Receipt, err
}

// Wrapped returns the limiter that Redis decides by.
func (l *ofTaken) Wrapped() any { return l.limiter }
