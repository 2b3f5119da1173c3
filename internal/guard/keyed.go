package guard

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Keyed opens the limiters of the keys of a middleware, all with the same policies. The middleware
// knows K about these.
type Keyed[K any] struct {
	limiters *limit.Keyed
	known    K
}

// One is the limiter of one key, and what is known about its policies.
type One[K any] struct {
	*limit.Limiter
	Known K
}

// NewKeyed returns an error if no call could work. It sends nothing.
func NewKeyed[K any](client *rratelimiter.Client, name string, policies []limit.Policy, known K) (*Keyed[K], error) {
	k := &Keyed[K]{limit.NewKeyed(client, name, policies...), known}
	// A call whose context has ended sends nothing, and reports an invalid argument first.
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := k.limiters.Take(ended, "key", 1); !errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("limiters of the name %q: %w", name, err)
	}
	return k, nil
}

// Limiter returns the limiter of a key. An empty key is an error: no two requests share a limiter
// by accident.
func (k *Keyed[K]) Limiter(key string) (*One[K], error) {
	if key == "" {
		return nil, errors.New("a key is empty")
	}
	return &One[K]{k.limiters.Limiter(Key(key)), k.known}, nil
}

// IsNil reports whether there is no limiter, or a nil pointer.
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
