package httplimit

import (
	"context"
	"fmt"
	"net/http"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Limiter is what a request is limited by: a *[rratelimiter.Limiter], a *[limit.Limiter], or one of another kind.
//
// One of another kind may have more methods of those two, which are called if it has them: TryAcquireWithin and Acquire to wait for
// permits, TakeEach for the decision of each policy, Release and Charge to settle, and Name, without which neither [Local] nor
// the pauses of [Transport] can tell it from others. Peek or AvailablePermits show in the background that Redis is back; without them Take of
// one permit does, which Release returns.
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
// An empty key is an error, as a key that cannot be told is: no two clients share a limiter by accident. Two names of which one is the
// other's beginning up to a colon, as "web" and "web:v2", may have a limiter in common, for the keys "v2:x" and "x".
//
// Each panics where the client, the name or a policy is one that no call could work with.
func Each(client *rratelimiter.Client, name string, key Key, policies ...limit.Policy) func(*http.Request) (Limiter, error) {
	if key == nil {
		panic(fmt.Sprintf("httplimit: Each of %q needs a Key", name))
	}
	known := describe(policies)
	keyed, err := guard.NewKeyed(client, name, known.Policies, known)
	if err != nil {
		panic(fmt.Sprintf("httplimit: Each: %v", err))
	}
	return func(r *http.Request) (Limiter, error) {
		text, err := key(r)
		if err != nil {
			return nil, err
		}
		l, err := keyed.Limiter(text)
		if err != nil {
			return nil, fmt.Errorf("httplimit: of a request: %w", err)
		}
		return l, nil
	}
}

// one is the limiter of one key.
type one = guard.One[*known]
