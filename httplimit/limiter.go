package httplimit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"reflect"
	"sync/atomic"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/door"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Limiter is what a request is limited by: a *[rratelimiter.Limiter], a *[limit.Limiter], or one of another kind.
//
// One of another kind may have more methods of those two, and is asked by them where it has: TryAcquireWithin and Acquire to
// wait in line, TakeEach to tell several policies apart, Release and Charge to settle, Peek or AvailablePermits to see that
// Redis is back, and Name, without which neither [Local] nor the pauses of [Transport] can tell it from others.
type Limiter interface {
	Take(ctx context.Context, permits int64) (rratelimiter.Decision, error)
}

// All limits all requests by one limiter. A nil limiter lets them pass.
func All(limiter Limiter) func(*http.Request) (Limiter, error) {
	return func(*http.Request) (Limiter, error) { return limiter, nil }
}

// Each limits the requests of each key by a limiter of their own, with some policies: that of the key "192.0.2.1" and the name
// "web" is named "web:192.0.2.1". A key of more than 128 bytes is told by its SHA-256, and bytes that would mean something else in
// a name are written as in a URL, braces among them. So the name, not the key, decides the slot of a Redis Cluster where it
// has a hash tag.
//
// An empty key is an error, as a key that cannot be told is: no two clients share a limiter by accident.
//
// Each panics where the client, the name or a policy is one that no call could work with.
func Each(client *rratelimiter.Client, name string, key Key, policies ...limit.Policy) func(*http.Request) (Limiter, error) {
	if name == "" || key == nil {
		panic("httplimit: Each needs a name and a Key")
	}
	known := describePolicies(policies)
	policies = known.policies // as limit.New wants them
	// A call whose context has ended asks nothing of Redis, and says what is wrong before it says that.
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := limit.New(client, door.Name(name, "key"), policies...).Take(ended, 1); !errors.Is(err, context.Canceled) {
		panic(fmt.Sprintf("httplimit: Each of %q: %v", name, err))
	}
	lately := &recent{seed: maphash.MakeSeed()}
	return func(r *http.Request) (Limiter, error) {
		text, err := key(r)
		if err != nil {
			return nil, err
		}
		if text == "" {
			return nil, errors.New("httplimit: the key of the request is empty")
		}
		place := lately.place(text)
		if l := place.Load(); l != nil && l.key == text {
			return l, nil
		}
		l := &one{limit.New(client, door.Name(name, text), policies...), text, known}
		if len(text) <= longestKept {
			place.Store(l)
		}
		return l, nil
	}
}

// one is the limiter of one key, and what is known of its policies.
type one struct {
	*limit.Limiter
	key   string
	known *known
}

// recent is limiters that were used lately: to open one takes longer than all else that a refusal from memory does. It has a
// place for each of some hundred hashes of keys, however many keys there are.
type recent struct {
	seed   maphash.Seed
	places [512]atomic.Pointer[one]
}

// longestKept is the longest key that is kept.
const longestKept = 128

func (c *recent) place(key string) *atomic.Pointer[one] {
	return &c.places[maphash.String(c.seed, key)%uint64(len(c.places))]
}

// isNil says whether there is no limiter, also where a nil pointer says so.
func isNil(l Limiter) bool {
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
