package limit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
)

// Keyed is a limiter for each key under a prefix: for each user, tenant or address. All have the
// same policies, which are validated once.
//
// The limiter of a key without braces is New(client, prefix+":"+key, policies...). Braces in a key
// are data: they do not choose a slot of a Redis Cluster. No two keys share a limiter. A prefix may
// contain a hash tag, as "{web}" does: then the limiters of all keys are in one slot.
//
// A Keyed is safe for concurrent use, and keeps no state of its keys.
type Keyed struct {
	plan   *plan
	prefix string // with the colon
	plain  string // if names are in Redis as they are, the beginning of their keys, else ""
	err    error
	unused sync.Pool // *Limiter of an earlier call
}

// NewKeyed opens the limiters of a prefix. It sends nothing. With invalid arguments, all calls fail
// as those of a Limiter of [New]; with an empty prefix or key, they fail with
// [rratelimiter.ErrInvalidName].
func NewKeyed(client *rratelimiter.Client, prefix string, policies ...Policy) *Keyed {
	p, err := newPlan(client, policies)
	if err == nil && prefix == "" {
		err = fmt.Errorf("%w: the prefix is empty", rratelimiter.ErrInvalidName)
	}
	k := &Keyed{plan: p, prefix: prefix + ":", err: err}
	if err == nil && !p.client.Maps && !strings.ContainsAny(prefix, "{}") {
		k.plain = "{" + k.prefix
	}
	return k
}

// Limiter returns the limiter of a key: for every other call, for [Join] and for the middleware.
func (k *Keyed) Limiter(key string) *Limiter {
	l := new(Limiter)
	l.sealed = inside.New((*handle)(l))
	if k.isPlain(key) {
		k.plan.open(l, "", keyPrefix{k.plain, key, "}:"})
		return l
	}
	name := k.prefix + key
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
		opened, prefix = k.prefix+escape.Replace(key), escapedPrefix
	}
	mapped, err := k.plan.client.Mapped(opened)
	if err != nil {
		return failed(name, err)
	}
	k.plan.open(l, name, prefix(mapped))
	return l
}

// isPlain reports whether a key is in Redis as it is.
func (k *Keyed) isPlain(key string) bool {
	return k.plain != "" && key != "" && strings.IndexByte(key, '{') < 0 && strings.IndexByte(key, '}') < 0
}

// try takes permits of a key. A Limiter that no call uses any more serves another key: a new one costs a tenth of
// a call.
func (k *Keyed) try(ctx context.Context, key string, ask engine.Ask, result *engine.Result) error {
	if !k.isPlain(key) {
		return (*handle)(k.Limiter(key)).Try(ctx, ask, result)
	}
	var l *Limiter
	if ctx.Done() == nil {
		l, _ = k.unused.Get().(*Limiter)
	}
	if l == nil {
		l = new(Limiter)
	}
	k.plan.open(l, "", keyPrefix{k.plain, key, "}:"})
	if err := l.checkPermits(ctx, ask.Permits); err != nil {
		return err
	}
	unused, err := l.calls.Try(ctx, ask, result)
	if unused {
		k.unused.Put(l)
	}
	return err
}

var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// escapedPrefix is prefixOf for a name with an escaped key. It ends in "%:", and that of any other
// name in "}:" or "::".
func escapedPrefix(name string) keyPrefix {
	if strings.Contains(name, "{") {
		return keyPrefix{"", name, "%:"}
	}
	return keyPrefix{"{", name, "}%:"}
}

// TryAcquire is [Limiter.TryAcquire] of a key.
func (k *Keyed) TryAcquire(ctx context.Context, key string, permits int64) (bool, error) {
	var result engine.Result
	err := k.try(ctx, key, engine.Ask{Permits: permits}, &result)
	return result.Allowed, err
}

// Take is [Limiter.Take] of a key.
func (k *Keyed) Take(ctx context.Context, key string, permits int64) (rratelimiter.Decision, error) {
	var result engine.Result
	err := k.try(ctx, key, engine.Ask{Permits: permits, Detail: true}, &result)
	return rratelimiter.Decision(result.Decision), err
}

// TakeWithin is [Limiter.TakeWithin] of a key.
func (k *Keyed) TakeWithin(ctx context.Context, key string, permits int64, timeout time.Duration) (
	rratelimiter.Decision, error) {
	return k.Limiter(key).TakeWithin(ctx, permits, timeout)
}

// Drain is [Limiter.Drain] of a key.
func (k *Keyed) Drain(ctx context.Context, key string, leave int64) (rratelimiter.Decision, error) {
	return k.Limiter(key).Drain(ctx, leave)
}

// Acquire is [Limiter.Acquire] of a key.
func (k *Keyed) Acquire(ctx context.Context, key string, permits int64) error {
	return k.Limiter(key).Acquire(ctx, permits)
}
