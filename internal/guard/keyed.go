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
// error, so that requests never share a limiter by accident. Texts begin with the call and its name.
func Each(call string, client *rratelimiter.Client, name string, policies []limit.Policy,
) func(key string) (Limiter, error) {
	d := Describe(policies...)
	limiters := limit.NewKeyed(client, name, d.Policies...)
	if err := CheckLimiter(limiters.Limiter("key")); err != nil {
		panic(fmt.Sprintf("%s: %v", call, err))
	}
	return func(key string) (Limiter, error) {
		if key == "" {
			return nil, fmt.Errorf("%s: the key is empty", call)
		}
		return d.Of(limiters.Limiter(Key(key))), nil
	}
}

// EachRedisson returns a function that opens the limiter of a key in Redisson's layout, whose name is
// the prefix and the key. A rate without a KeepAlive is invalid, since Redis would keep every key for
// ever. Otherwise it is as Each.
func EachRedisson(call string, client *rratelimiter.Client, prefix string, rate rratelimiter.Rate,
) func(key string) (Limiter, error) {
	initial := rratelimiter.InitialRate(rate)
	var err error
	switch {
	case client == nil:
		err = rratelimiter.ErrNoClient
	case prefix == "":
		err = fmt.Errorf("%w: the prefix is empty", rratelimiter.ErrInvalidName)
	case rate.KeepAlive == 0:
		err = fmt.Errorf("%w: without a KeepAlive, the limiters of all keys stay for ever", rratelimiter.ErrInvalidRate)
	default:
		err = CheckLimiter(client.Limiter(prefix+"key", initial))
	}
	if err != nil {
		panic(fmt.Sprintf("%s: %v", call, err))
	}
	return func(key string) (Limiter, error) {
		if key == "" {
			return nil, fmt.Errorf("%s: the key is empty", call)
		}
		if len(key) > longestShared {
			return nil, Invalidf("%s: the key has %d bytes, want at most %d", call, len(key), longestShared)
		}
		return client.Limiter(prefix+key, initial), nil
	}
}

// longestShared is the largest number of bytes of a key in Redisson's layout, which has no hash in place
// of a long key. A client may send a key of a MB, which Redis would keep.
const longestShared = 8 << 10

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

type described struct {
	Limiter
	description *Description
}

// Of returns a limiter with this description.
func (d *Description) Of(l Limiter) Limiter { return described{l, d} }

// Described returns a limiter with the description of its policies, unless it is nil.
func Described(l Limiter) Limiter {
	if IsNil(l) {
		return nil
	}
	return descriptionOf(l).Of(l)
}

func undescribed(l Limiter) Limiter {
	if l, ok := l.(described); ok {
		return l.Limiter
	}
	return l
}

var noDescription = Describe()

// descriptionOf returns the description of a limiter. The rate of a *rratelimiter.Limiter is in Redis.
func descriptionOf(l Limiter) *Description {
	switch l := l.(type) {
	case described:
		return l.description
	case interface{ Policies() []limit.Policy }:
		return Describe(l.Policies()...)
	}
	return noDescription
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
