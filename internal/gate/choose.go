package gate

// The chooser by a function, and the ready-made functions: one limiter for all requests, or one for each key.

import (
	"errors"
	"fmt"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/identity"
	"github.com/rratelimiter/rratelimiter/internal/outage"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Func is a Chooser by a function, which returns the limiter of a request.
type Func[R Request[R]] func(R) (outage.Limiter, error)

// Choose returns the visit of a request, none if the function returns no limiter.
func (choose Func[R]) Choose(r R) (R, []Visit[R]) {
	limiter, err := choose(r)
	l, described := limiter.(describedLimiter)
	if err == nil && !described && outage.IsNil(limiter) {
		return r, nil
	}
	one := make([]Visit[R], 1)
	switch v := &one[0]; {
	case err != nil:
		v.Outcome.Err = err
	case described:
		v.Ask.Limiter, v.Description = l.Limiter, l.description
	default:
		v.Ask.Limiter, v.Description = limiter, descriptionOf(limiter)
	}
	return r, one
}

// All returns a chooser of one limiter, with the description of its policies, or of none for a nil limiter. It panics
// if every call would fail. The text begins with the call.
func All[R any](call string, l outage.Limiter) func(R) (outage.Limiter, error) {
	if outage.IsNil(l) {
		return func(R) (outage.Limiter, error) { return nil, nil }
	}
	MustCheck(call, l)
	d := *descriptionOf(l)
	d.unknownPolicies = outage.IsOurs(l) && !outage.HasShare(l)
	l = describedLimiter{l, &d}
	return func(R) (outage.Limiter, error) { return l, nil }
}

// Each returns a chooser of the limiter of a key, with a description of the policies that all keys share. It panics
// if every call would fail, and sends nothing to Redis. An empty key is an error, so that requests never share a
// limiter by accident. Texts begin with the call.
func Each[R any, K ~func(R) (string, error)](call string, client *rratelimiter.Client, name string, key K,
	policies []limit.Policy) func(R) (outage.Limiter, error) {
	d := Describe(policies...)
	limiters := limit.NewKeyed(client, name, d.Policies...)
	return each(call, key, outage.CheckLimiter(limiters.Limiter("key")), func(key string) (outage.Limiter, error) {
		return describedLimiter{limiters.Limiter(identity.Key(key)), d}, nil
	})
}

// EachRedisson is Each for limiters in Redisson's layout, whose names are the prefix and the key. A rate without a
// KeepAlive is invalid, since Redis would keep every key for ever.
func EachRedisson[R any, K ~func(R) (string, error)](call string, client *rratelimiter.Client, prefix string, key K,
	rate rratelimiter.Rate) func(R) (outage.Limiter, error) {
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
		err = outage.CheckLimiter(client.Limiter(prefix+"key", initial))
	}
	return each(call, key, err, func(key string) (outage.Limiter, error) {
		if len(key) > longestRedissonKey {
			return nil, identity.Invalidf("%s: the key has %d bytes, want at most %d", call, len(key), longestRedissonKey)
		}
		return client.Limiter(prefix+key, initial), nil
	})
}

// longestRedissonKey is the largest number of bytes of a key in Redisson's layout, which has no hash in place
// of a long key. A client may send a key of a MB, which Redis would keep.
const longestRedissonKey = 8 << 10

// each returns a chooser that opens the limiter of a key. It panics with invalid, an error of all of them.
func each[R any, K ~func(R) (string, error)](call string, key K, invalid error,
	open func(key string) (outage.Limiter, error)) func(R) (outage.Limiter, error) {
	if invalid == nil && key == nil {
		invalid = errors.New("the Key is nil: pass ByIP or a function")
	}
	if invalid != nil {
		panic(fmt.Sprintf("%s: %v", call, invalid))
	}
	return func(r R) (outage.Limiter, error) {
		text, err := key(r)
		if err == nil && text == "" {
			err = fmt.Errorf("%s: the key is empty", call)
		}
		if err != nil {
			return nil, err
		}
		return open(text)
	}
}
