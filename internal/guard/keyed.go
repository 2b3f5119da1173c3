package guard

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Each returns a function that opens the limiter of a key, with a description of the policies that
// all keys share. It panics if every call would fail, and sends nothing to Redis. An empty key is an
// error, so that requests never share a limiter by accident. Texts begin with the caller.
func Each[D any](caller string, client *rratelimiter.Client, name string, policies []limit.Policy, d D,
) func(key string) (Limiter, error) {
	limiters := limit.NewKeyed(client, name, policies...)
	// A call whose context has ended sends nothing, but reports invalid arguments first.
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := limiters.Take(ended, "key", 1); !errors.Is(err, context.Canceled) {
		panic(fmt.Sprintf("%s: name %q: %v", caller, name, err))
	}
	return func(key string) (Limiter, error) {
		if key == "" {
			return nil, fmt.Errorf("%s: name %q: the key is empty", caller, name)
		}
		return WithDescription[D](limiters.Limiter(Key(key)), d), nil
	}
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
