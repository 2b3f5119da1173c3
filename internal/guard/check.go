package guard

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// CheckLimiter returns the error with which every call of a limiter fails. It sends nothing to Redis,
// and returns no error of limiters of other types, which might.
func CheckLimiter(l Limiter) error {
	switch l := unwrap(l).(type) {
	case *limit.Limiter, *rratelimiter.Limiter:
		// A call whose context has ended reports invalid arguments first.
		if _, err := l.Take(ended, 1); !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}

var ended = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// MustCheck panics if every call of a limiter fails. With a mode that is a share of the limit, it
// panics if the policies are unknown, too. The text begins with the call.
func MustCheck(call string, mode limit.FailureMode, l Limiter) {
	if l = undescribed(l); IsNil(l) {
		return
	}
	if err := CheckLimiter(l); err != nil {
		panic(fmt.Sprintf("%s: %v", call, err))
	}
	switch unwrap(l).(type) {
	case *limit.Limiter, *rratelimiter.Limiter:
		MustShare(call, mode, l)
	}
}

// MustShare panics with a mode that is a share of the limit if the policies are unknown.
func MustShare(call string, mode limit.FailureMode, l Limiter) {
	if mode <= 0 || IsNil(l) {
		return
	}
	if keys, _ := sharesOf(Request{Limiter: l}, float64(mode)); keys == nil {
		panic(fmt.Sprintf("%s: the policies of limiter %q are unknown: pass InitialRate to it, for Local", call, l.Name()))
	}
}

// SameCode reports whether two functions have the same code. Closures of one function that is not
// inlined do.
func SameCode(f, g any) bool { return reflect.ValueOf(f).Pointer() == reflect.ValueOf(g).Pointer() }

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
