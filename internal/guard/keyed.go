package guard

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Keyed opens the limiters of a middleware's keys, which share their policies. D describes the
// policies.
type Keyed[D any] struct {
	limiters    *limit.Keyed
	description D
}

// keyedLimiter is the limiter of one key, with the description of its policies.
type keyedLimiter[D any] struct {
	*limit.Limiter
	description D
}

func (l *keyedLimiter[D]) unwrap() (Limiter, D) { return l.Limiter, l.description }

// NewKeyed returns a Keyed, or an error if every call would fail. It sends nothing to Redis.
func NewKeyed[D any](client *rratelimiter.Client, name string, policies []limit.Policy, d D) (*Keyed[D], error) {
	k := &Keyed[D]{limit.NewKeyed(client, name, policies...), d}
	// A call whose context has ended sends nothing, but reports invalid arguments first.
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := k.limiters.Take(ended, "key", 1); !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("name %q: %w", name, err)
	}
	return k, nil
}

// Limiter returns the limiter of a key. An empty key is an error, so that requests never share a
// limiter by accident.
func (k *Keyed[D]) Limiter(key string) (Limiter, error) {
	if key == "" {
		return nil, errors.New("the key is empty")
	}
	return &keyedLimiter[D]{k.limiters.Limiter(Key(key)), k.description}, nil
}

// describedLimiter is a limiter with a description of its policies.
type describedLimiter[D any] struct {
	Limiter
	description D
}

func (l *describedLimiter[D]) unwrap() (Limiter, D) { return l.Limiter, l.description }

// WithDescription returns a limiter with a description of its policies.
func WithDescription[D any](l Limiter, d D) Limiter { return &describedLimiter[D]{l, d} }

// Unwrap returns a limiter without its description, and the description. A limiter that has none
// gets the default.
func Unwrap[D any](l Limiter, byDefault D) (Limiter, D) {
	if l, ok := l.(interface{ unwrap() (Limiter, D) }); ok {
		return l.unwrap()
	}
	return l, byDefault
}

// IsNil reports whether l is nil or holds a nil value.
func IsNil(l Limiter) bool {
	if l == nil {
		return true
	}
	v := reflect.ValueOf(l)
	switch v.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice, reflect.Chan:
		return v.IsNil()
	}
	return false
}
