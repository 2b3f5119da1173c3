package guard

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Keyed opens the limiters of a middleware's keys, which share their policies. K describes the
// policies.
type Keyed[K any] struct {
	limiters *limit.Keyed
	known    K
}

// KeyedLimiter is the limiter of one key, with the description of its policies.
type KeyedLimiter[K any] struct {
	*limit.Limiter
	Description K
}

// NewKeyed returns a Keyed, or an error if every call would fail. It sends nothing to Redis.
func NewKeyed[K any](client *rratelimiter.Client, name string, policies []limit.Policy, known K) (*Keyed[K], error) {
	k := &Keyed[K]{limit.NewKeyed(client, name, policies...), known}
	// A call whose context has ended sends nothing, but reports invalid arguments first.
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := k.limiters.Take(ended, "key", 1); !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("limiters of the name %q: %w", name, err)
	}
	return k, nil
}

// Limiter returns the limiter of a key. An empty key is an error, so that requests never share a
// limiter by accident.
func (k *Keyed[K]) Limiter(key string) (*KeyedLimiter[K], error) {
	if key == "" {
		return nil, errors.New("a key is empty")
	}
	return &KeyedLimiter[K]{k.limiters.Limiter(Key(key)), k.known}, nil
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
