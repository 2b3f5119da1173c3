package limit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter"
)

// Keyed is a limiter for each key under a prefix: for each user, tenant or address. All have the
// same policies, which are validated once.
//
// The limiter of a key without braces is New(client, prefix+":"+key, policies...). Braces in a key
// are data: they do not choose a slot of a Redis Cluster. No two keys share a limiter. A prefix may
// contain a hash tag, as "{web}" does: then the limiters of all keys are in one slot.
//
// A Keyed is safe for concurrent use, and keeps nothing about its keys.
type Keyed struct {
	plan   *plan
	prefix string
	err    error
}

// NewKeyed opens the limiters of a prefix. It sends nothing. With invalid arguments, all calls fail
// as those of a Limiter of [New]; with an empty prefix or key, they fail with
// [rratelimiter.ErrInvalidName].
func NewKeyed(client *rratelimiter.Client, prefix string, policies ...Policy) *Keyed {
	p, err := newPlan(client, policies)
	if err == nil && prefix == "" {
		err = fmt.Errorf("%w: the prefix is empty", rratelimiter.ErrInvalidName)
	}
	return &Keyed{p, prefix, err}
}

// Limiter returns the limiter of a key, for [Join] for instance.
func (k *Keyed) Limiter(key string) *Limiter {
	name := k.prefix + ":" + key
	switch {
	case k.err != nil:
		return failed(name, k.err)
	case k.plan == nil:
		return failed(name, fmt.Errorf("%w: open a Keyed with NewKeyed", rratelimiter.ErrNoClient))
	case key == "":
		return failed(name, fmt.Errorf("%w: the key of prefix %q is empty", rratelimiter.ErrInvalidName, k.prefix))
	}
	opened, prefix := name, prefixOf
	if strings.ContainsAny(key, "{}") {
		opened, prefix = k.prefix+":"+escape.Replace(key), escapedPrefix
	}
	mapped, err := k.plan.client.Mapped(opened)
	if err != nil {
		return failed(name, err)
	}
	return k.plan.limiter(name, prefix(mapped))
}

var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// escapedPrefix is prefixOf for a name with an escaped key. It ends in "%:", which differs from
// that of any other name: such a one ends in "}:" or "::".
func escapedPrefix(name string) keyPrefix {
	if strings.Contains(name, "{") {
		return keyPrefix{"", name, "%:"}
	}
	return keyPrefix{"{", name, "}%:"}
}

// TryAcquire is [Limiter.TryAcquire] of a key.
func (k *Keyed) TryAcquire(ctx context.Context, key string, permits int64) (bool, error) {
	return k.Limiter(key).TryAcquire(ctx, permits)
}

// Take is [Limiter.Take] of a key.
func (k *Keyed) Take(ctx context.Context, key string, permits int64) (rratelimiter.Decision, error) {
	return k.Limiter(key).Take(ctx, permits)
}

// TakeUpTo is [Limiter.TakeUpTo] of a key.
func (k *Keyed) TakeUpTo(ctx context.Context, key string, permits int64) (granted int64,
	decision rratelimiter.Decision, err error) {
	return k.Limiter(key).TakeUpTo(ctx, permits)
}

// TakeEach is [Limiter.TakeEach] of a key.
func (k *Keyed) TakeEach(ctx context.Context, key string, permits int64) ([]rratelimiter.Decision, error) {
	return k.Limiter(key).TakeEach(ctx, permits)
}

// TryAcquireWithin is [Limiter.TryAcquireWithin] of a key.
func (k *Keyed) TryAcquireWithin(ctx context.Context, key string, permits int64, timeout time.Duration) (bool, error) {
	return k.Limiter(key).TryAcquireWithin(ctx, permits, timeout)
}

// Acquire is [Limiter.Acquire] of a key.
func (k *Keyed) Acquire(ctx context.Context, key string, permits int64) error {
	return k.Limiter(key).Acquire(ctx, permits)
}

// Reserve is [Limiter.Reserve] of a key.
func (k *Keyed) Reserve(ctx context.Context, key string, permits int64) (*Reservation, error) {
	return k.Limiter(key).Reserve(ctx, permits)
}

// Charge is [Limiter.Charge] of a key.
func (k *Keyed) Charge(ctx context.Context, key string, permits int64) (rratelimiter.Decision, error) {
	return k.Limiter(key).Charge(ctx, permits)
}

// Release is [Limiter.Release] of a key.
func (k *Keyed) Release(ctx context.Context, key string, permits int64) error {
	return k.Limiter(key).Release(ctx, permits)
}

// Pause is [Limiter.Pause] of a key.
func (k *Keyed) Pause(ctx context.Context, key string, d time.Duration) error {
	return k.Limiter(key).Pause(ctx, d)
}

// Peek is [Limiter.Peek] of a key.
func (k *Keyed) Peek(ctx context.Context, key string) ([]rratelimiter.Decision, error) {
	return k.Limiter(key).Peek(ctx)
}

// Reset is [Limiter.Reset] of a key.
func (k *Keyed) Reset(ctx context.Context, key string) error {
	return k.Limiter(key).Reset(ctx)
}
