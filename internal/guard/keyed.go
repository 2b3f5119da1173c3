package guard

import (
	"fmt"

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
