package rratelimiter

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// Limiter is a rate limiter, shared by all programs that open its name on the same Redis. It is
// Redisson's RRateLimiter.
//
// Most programs need [Limiter.TryAcquire], which never waits, or [Limiter.Acquire], which does.
//
// A Limiter is safe for concurrent use. Calls of the zero Limiter fail with [ErrNoClient].
//
// Every call ends as soon as its context does, with the context's error. A change that was sent may
// still take effect. If permits arrive for a caller that has left, the Client releases them.
type Limiter struct {
	sealed
	protocol  protocol
	err       error // of an invalid name or client
	crossSlot error // if Redis is a cluster
	calls     engine.Limiter
}

// LimiterOption is a setting of a [Limiter], for [Client.Limiter].
type LimiterOption func(*Limiter)

// InitialRate sets the rate that a limiter begins with. A call that finds no rate in Redis sets
// this one, as [Limiter.TrySetRate] does, and goes on: then it takes one more round trip. So a
// limiter that has expired by its KeepAlive, or was lost with the data of Redis, begins again.
//
// Open a limiter with the same InitialRate everywhere in a program. Limiters of one name and Client
// share waiters and prefetches only then.
//
// RedisCall of an [Observer] reports the calls for permits that set it.
//
// InitialRate does not change the rate of a limiter that has one: call [Limiter.SetRate] with
// [KeepState] for that.
//
// The calls that need a rate are those that take permits, wait for them, release or count them,
// alone and in a Join of package limit. The others, such as [Limiter.Config], report what is in
// Redis. With an invalid rate every call fails with [ErrInvalidRate].
func InitialRate(rate Rate) LimiterOption {
	err, args := rate.validate(), rate.fields()
	return func(l *Limiter) {
		if l.err == nil {
			l.err = err
		}
		l.protocol.initial = []redisx.Call{{Script: trySetRateScript, Keys: l.protocol.keys[:], Args: args}}
	}
}

// Name returns the name with which the limiter was opened: getName().
func (l *Limiter) Name() string { return l.protocol.name }

// check returns the error that needs no call to Redis.
func (l *Limiter) check(ctx context.Context) error {
	if l.protocol.client == nil {
		return fmt.Errorf("%w: open a Limiter with Client.Limiter", ErrNoClient)
	}
	if l.err != nil {
		return l.err
	}
	if l.crossSlot != nil && l.protocol.client.engine.Cluster() {
		return l.crossSlot
	}
	return ctx.Err()
}

func (l *Limiter) checkAcquire(ctx context.Context, permits int64) error {
	if permits < 1 {
		return fmt.Errorf("%w: %d permits of %q requested, want at least 1", ErrInvalidPermits, permits, l.protocol.name)
	}
	if permits > engine.MaxPermits {
		err := fmt.Errorf("%w: %w", ErrInvalidPermits, l.protocol.AboveLimit(permits, engine.MaxPermits))
		if l.check(ctx) == nil {
			l.calls.ReportDenial(ctx, permits, err)
		}
		return err
	}
	return l.check(ctx)
}

// TryAcquire takes permits if they are free now, and reports whether it did: tryAcquire(permits).
// It never waits, and may take permits for which callers of Acquire wait. One call takes 1 to
// 4294967295 permits, the most that Redisson's grant can hold.
//
// Errors: [ErrInvalidPermits], [ErrNotInitialized], [ErrPermitsExceedRate], [*StateError]. If Redis
// fails during the call, the permits may still be taken; they return after the interval.
func (l *Limiter) TryAcquire(ctx context.Context, permits int64) (bool, error) {
	var result engine.Result
	err := (*handle)(l).Try(ctx, engine.Ask{Permits: permits}, &result)
	return result.Allowed, err
}

// Take is [Limiter.TryAcquire] with the numbers for a user of the caller, in an HTTP header for
// instance. If the window holds more than 256 grants, RetryAfter may be too short: ask again then.
func (l *Limiter) Take(ctx context.Context, permits int64) (Decision, error) {
	var result engine.Result
	err := (*handle)(l).Try(ctx, engine.Ask{Permits: permits, Detail: true}, &result)
	return Decision(result.Decision), err
}

// TakeUpTo takes the permits that are free now, at most so many, and returns how many it took. If
// none are free, it takes none and the Decision is a denial: RetryAfter is the time until one is
// free. One call may ask for more than the rate, up to 4294967295 permits. Redisson has no such
// call; it finds the limiter as after tryAcquire(granted). Like [Limiter.Take], TakeUpTo never
// waits.
func (l *Limiter) TakeUpTo(ctx context.Context, permits int64) (granted int64, decision Decision, err error) {
	if err := l.checkAcquire(ctx, permits); err != nil {
		return 0, Decision{}, err
	}
	var result engine.Result
	_, err = l.calls.Try(ctx, engine.Ask{Permits: 1, UpTo: permits, Detail: true}, &result)
	return result.Granted, Decision(result.Decision), err
}

// TryAcquireWithin takes permits as soon as they are free, if that is within the timeout, and
// reports whether it did: tryAcquire(permits, timeout). It queues with callers of Acquire. If the
// permits cannot be free in time, it returns false at once; if the window holds more than 256
// grants, only the oldest 256 are considered. Permits that others may release are not foreseen. A
// timeout of 0 or below is one try, like TryAcquire. No permit is granted after the timeout, so a timeout
// below the round trip grants nothing. If Redis has not replied by then, the error is
// [context.DeadlineExceeded].
//
// Redisson returns false when the timeout has passed. So the loop "while (!limiter.tryAcquire(1,
// timeout))" of a Java program waits there, and would spin here: use [Limiter.Acquire] instead.
func (l *Limiter) TryAcquireWithin(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	if timeout <= 0 {
		return l.TryAcquire(ctx, permits)
	}
	deadline := time.Now().Add(timeout)
	return (*handle)(l).Wait(ctx, engine.Ask{Permits: permits}, deadline, new(engine.Result))
}

// TakeWithin is [Limiter.TryAcquireWithin] with the numbers of [Limiter.Take]. Those of a grant are of the end
// of the wait. Those of a denial are of the last reply of Redis. RetryAfter of a denial at once is the time until the
// permits could be free behind the callers that wait, and at the timeout until they could be free. With an error,
// the Decision is zero.
func (l *Limiter) TakeWithin(ctx context.Context, permits int64, timeout time.Duration) (Decision, error) {
	if timeout <= 0 {
		return l.Take(ctx, permits)
	}
	var result engine.Result
	deadline := time.Now().Add(timeout)
	if _, err := (*handle)(l).Wait(ctx, engine.Ask{Permits: permits, Detail: true}, deadline, &result); err != nil {
		return Decision{}, err
	}
	return Decision(result.Decision), nil
}

// Acquire waits until permits are free and takes them: acquire(permits). Callers that wait for one
// limiter on one Client are served first come, first served, a large request before smaller ones
// behind it. Callers that wait learn what other Clients release or change within five seconds.
//
// Clients whose callers wait for one Overall limiter get equal shares, whatever their distance from Redis. One
// that wants less gets all of it.
//
// Acquire ends with ctx. If the permits cannot be had before the deadline of ctx, it fails at once
// with an error that is [context.DeadlineExceeded]. Permits that others may release are not foreseen.
// An Acquire that fails holds no permits.
func (l *Limiter) Acquire(ctx context.Context, permits int64) error {
	_, err := (*handle)(l).Wait(ctx, engine.Ask{Permits: permits}, time.Time{}, new(engine.Result))
	return err
}

// Release returns permits before they expire: release(permits). It takes them off the oldest
// grants, also those of other callers; permits that other Clients have prefetched come last. So release
// only permits that were taken less than an interval ago. Older ones have returned already, and
// Release would free those of other callers. Releasing more than is taken frees all permits. 0 does
// nothing, and less is [ErrInvalidPermits].
func (l *Limiter) Release(ctx context.Context, permits int64) error {
	if permits < 0 || permits > maxPermits {
		return fmt.Errorf("%w: %d permits of %q to release, want 0 to 2^53", ErrInvalidPermits, permits, l.protocol.name)
	}
	if err := l.check(ctx); err != nil {
		return err
	}
	for permits > 0 {
		args := []string{l.protocol.client.nowText(), strconv.FormatInt(permits, 10), l.protocol.client.prefetchIDBytes()}
		reply, err := engine.ChangeLimiters(ctx, l.protocol.client.engine, l.protocol.keys[:1],
			func(ctx context.Context) (redisx.Reply, error) { return l.protocol.pages(ctx, releaseScript, args) })
		if err != nil {
			return err
		}
		rest := reply.Number()
		if !reply.Ended() || rest >= permits {
			return l.protocol.unexpected(&reply)
		}
		if permits = rest; permits > 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// Drain takes free permits until at most so many are free, as a provider's own count may require: it
// knows of requests by other programs. It never returns permits, so with the same number again it changes
// nothing. Redisson has no such call; it finds the limiter as after tryAcquire of these permits. One call
// takes at most 4294967295.
//
// The Decision is that of a request for one permit; its Allowed reports whether one is free. A number below 0
// is [ErrInvalidPermits].
func (l *Limiter) Drain(ctx context.Context, leave int64) (Decision, error) {
	if leave < 0 {
		return Decision{}, fmt.Errorf("%w: %d permits of %q to leave, want 0 or more", ErrInvalidPermits, leave,
			l.protocol.name)
	}
	if err := l.check(ctx); err != nil {
		return Decision{}, err
	}
	leave = min(leave, maxPermits)
	args := []string{l.protocol.client.nowText(), l.protocol.client.member(0, false), strconv.FormatInt(leave, 10)}
	reply, err := engine.ChangeLimiters(ctx, l.protocol.client.engine, l.protocol.keys[:1],
		func(ctx context.Context) (redisx.Reply, error) { return l.protocol.pages(ctx, drainScript, args) })
	if err != nil {
		return Decision{}, err
	}
	f := &forecast{free: reply.Number(), rate: reply.Number(), interval: millis(reply.Number()),
		reset: millis(reply.Number()), now: reply.Number(), expires: millis(reply.Number())}
	for reply.OK() && reply.Len() > 0 {
		f.add(reply.Number(), reply.Number())
	}
	if !reply.Ended() {
		return Decision{}, l.protocol.unexpected(&reply)
	}
	if f.free > 0 {
		return Decision(f.Granted(0)), nil
	}
	answer, _ := f.Denied(1)
	return Decision(answer), nil
}

// AvailablePermits returns the number of free permits, 0 to the rate: availablePermits(). It only
// reads.
func (l *Limiter) AvailablePermits(ctx context.Context) (int64, error) {
	if err := l.check(ctx); err != nil {
		return 0, err
	}
	args := []string{l.protocol.client.nowText()} // on the caller's goroutine: the clock may panic
	reply, err := engine.Detach(ctx, func(ctx context.Context) (redisx.Reply, error) {
		return l.protocol.pages(ctx, availableScript, args)
	})
	if err != nil {
		return 0, err
	}
	free := reply.Number()
	if !reply.Ended() {
		return 0, l.protocol.unexpected(&reply)
	}
	return free, nil
}
