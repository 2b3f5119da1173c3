package rratelimiter

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// maxGrant is how many permits one call takes at most: Redisson's grant has 32 bits for them.
const maxGrant = 1<<32 - 1

// Limiter is one rate limiter, shared with everybody who opens its name on the same Redis: Redisson's RRateLimiter.
//
// A Limiter is safe for concurrent use. Calls of the zero Limiter fail with [ErrNoClient].
//
// Every call ends as soon as its context does, with the context's error. A call that changes something and had been
// sent by then may still take effect, but permits that arrive for a caller that has gone are given back.
type Limiter struct {
	client *Client
	keys   keys
	err    error // what is wrong with the name or the client
	calls  engine.Limiter

	hinted atomic.Pointer[hint]
}

// Name is the name that the limiter was opened with: getName().
func (l *Limiter) Name() string { return l.calls.Name }

// check says what is wrong before Redis is asked at all.
func (l *Limiter) check(ctx context.Context) error {
	if l.client == nil {
		return fmt.Errorf("%w: open a Limiter with Client.Limiter", ErrNoClient)
	}
	if l.err != nil {
		return l.err
	}
	return ctx.Err()
}

func (l *Limiter) checkAcquire(ctx context.Context, permits int64) error {
	if permits < 1 {
		return fmt.Errorf("%w: %d permits of %q requested, want at least 1", ErrInvalidPermits, permits, l.calls.Name)
	}
	if permits > maxGrant {
		err := fmt.Errorf("%w: %d permits of %q requested, want at most %d", ErrInvalidPermits, permits, l.calls.Name, maxGrant)
		if l.check(ctx) == nil {
			l.calls.Refused(ctx, permits, err)
		}
		return err
	}
	return l.check(ctx)
}

// TryAcquire takes permits if they are free now, and reports whether it did: tryAcquire(permits). It never waits. One call
// takes at most 4294967295 permits, the most that Redisson's grant can hold.
//
// Errors: [ErrInvalidPermits], [ErrNotInitialized], [ErrPermitsExceedRate], [*StateError]. If Redis fails during the call,
// the permits may be taken all the same; they return after the interval.
func (l *Limiter) TryAcquire(ctx context.Context, permits int64) (bool, error) {
	if err := l.checkAcquire(ctx, permits); err != nil {
		return false, err
	}
	result, err := l.calls.Try(ctx, engine.Ask{Permits: permits})
	return result.Allowed, err
}

// Take is [Limiter.TryAcquire] with the numbers that a caller shows its own users, in an HTTP header for instance.
// Where very many grants are in the window, RetryAfter may be the moment to ask again rather than the last word.
func (l *Limiter) Take(ctx context.Context, permits int64) (Decision, error) {
	if err := l.checkAcquire(ctx, permits); err != nil {
		return Decision{}, err
	}
	result, err := l.calls.Try(ctx, engine.Ask{Permits: permits, Detail: true})
	return Decision(result.Answer), err
}

// TryAcquireWithin takes permits as soon as they are free, if that is within the timeout, and says whether it was:
// tryAcquire(permits, timeout). It stands in line with Acquire. Where the permits cannot be free in time it says so at
// once rather than at the end of the timeout; where more than 256 grants lie in the window, only as far as the oldest 256
// tell. A timeout of 0 or below is one try, as TryAcquire. No permit is granted after the timeout. If it passes
// without any answer of Redis, the error is [context.DeadlineExceeded].
func (l *Limiter) TryAcquireWithin(ctx context.Context, permits int64, timeout time.Duration) (bool, error) {
	if timeout <= 0 {
		return l.TryAcquire(ctx, permits)
	}
	deadline := time.Now().Add(timeout)
	if err := l.checkAcquire(ctx, permits); err != nil {
		return false, err
	}
	return l.calls.Wait(ctx, permits, deadline)
}

// Acquire takes permits as soon as they are free, and waits until then: acquire(permits). Those who wait for one
// limiter on one Client are served in the order in which they came, a large request before smaller ones behind it.
// It ends with ctx; where the deadline of ctx lies before the moment at which the permits could be free, it fails at
// once with an error that is [context.DeadlineExceeded]. Nobody holds permits afterwards who was not granted them.
func (l *Limiter) Acquire(ctx context.Context, permits int64) error {
	if err := l.checkAcquire(ctx, permits); err != nil {
		return err
	}
	_, err := l.calls.Wait(ctx, permits, time.Time{})
	return err
}

// Release gives permits back before they leave the window by themselves: release(permits). The oldest grants shrink
// by as much. Releasing more than is taken frees all; 0 does nothing. Below 0 is [ErrInvalidPermits].
func (l *Limiter) Release(ctx context.Context, permits int64) error {
	if permits < 0 || permits > maxPermits {
		return fmt.Errorf("%w: %d permits of %q to release, want 0 to 2^53", ErrInvalidPermits, permits, l.calls.Name)
	}
	if err := l.check(ctx); err != nil {
		return err
	}
	for permits > 0 {
		reply, err := l.askChange(ctx, releaseScript, l.client.nowText(), strconv.FormatInt(permits, 10), l.client.leaseMark())
		if err != nil {
			return err
		}
		if len(reply) != 2 {
			return l.unexpected(reply[0])
		}
		rest, err := reply[1].AsInt64()
		if err != nil || rest >= permits {
			return l.unexpected(reply[1])
		}
		if permits = rest; permits > 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// AvailablePermits counts the permits that are free now, 0 to the rate: availablePermits(). It only reads.
func (l *Limiter) AvailablePermits(ctx context.Context) (int64, error) {
	if err := l.check(ctx); err != nil {
		return 0, err
	}
	reply, err := l.ask(ctx, availableScript, l.client.nowText())
	if err != nil {
		return 0, err
	}
	if len(reply) != 2 {
		return 0, l.unexpected(reply[0])
	}
	free, err := reply[1].AsInt64()
	if err != nil {
		return 0, l.unexpected(reply[1])
	}
	return free, nil
}
