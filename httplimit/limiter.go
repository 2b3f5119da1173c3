package httplimit

import (
	"fmt"
	"net/http"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Limiter limits requests: a *[rratelimiter.Limiter], a *[limit.Limiter], or any other type with
// Take and Name. [limit.Local] and the pauses of [Transport] need a name that is not empty.
//
// Other types may have more methods of those two, which are used if present:
//
//   - Policies describes the limiter to clients, and for Local.
//   - TryAcquireWithin and Acquire wait for permits.
//   - TakeEach returns the decision of each policy.
//   - Charge and Release settle. Only the two types above refund by the grant of a request. A type that
//     wraps one of them refunds by its Release, or not at all.
//   - Unwrap returns the limiter that such a type wraps, whose node of Redis decides.
//   - Peek or AvailablePermits detect in the background that Redis is back. Without them, Take of
//     one permit does, and Release returns it.
type Limiter = limit.Joinable

// All limits all requests by one limiter. A nil limiter lets them pass. All panics if the
// client, the name or a policy of the limiter is invalid. In mode [limit.Local], requests panic if its
// policies are unknown: a *[rratelimiter.Limiter] needs an InitialRate.
func All(limiter Limiter) func(*http.Request) (Limiter, error) {
	limiter = guard.All("httplimit: All", limiter)
	return func(*http.Request) (Limiter, error) { return limiter, nil }
}

// Each limits the requests of each key by a limiter of their own, with the given policies. For the
// name "web" and the key "192.0.2.1", it is "web:192.0.2.1" for instance. A key of more than 128
// bytes is replaced by its SHA-256. Bytes that have a meaning in names, such as braces, are escaped
// as in a URL. So only a hash tag in the name decides the slot of a Redis Cluster.
//
// An empty or unknown key is an error, so that clients never share a limiter by accident. Two names
// share limiters if one is a prefix of the other up to a colon. An example is the key "v2:x" of
// "web" and the key "x" of "web:v2".
//
// Each panics if the client, the name or a policy is invalid, as the other set-up calls of this
// package do. [limit.Validate] checks policies that come from a configuration.
func Each(client *rratelimiter.Client, name string, key Key, policies ...limit.Policy,
) func(*http.Request) (Limiter, error) {
	at := fmt.Sprintf("httplimit: Each: name %q", name)
	return choose(at, key, guard.Each(at, client, name, policies))
}

// EachRedisson limits the requests of each key by a limiter of their own in Redisson's layout, which
// Java programs can share: redisson.getRateLimiter(prefix + key). For the prefix "tenant:" and the
// key "42", the name is "tenant:42": nothing is escaped or shortened. So a key that clients choose
// freely is for Each, and braces in a key decide the slot of a Redis Cluster.
//
// A limiter begins with the given rate, as with [rratelimiter.InitialRate]. If Java has set another
// one, that counts. The rate needs a KeepAlive, after which an unused limiter is deleted. In mode
// [limit.Local], the share is one of the given rate.
//
// An empty or unknown key is an error. EachRedisson panics if the client, the prefix or the rate is
// invalid.
func EachRedisson(client *rratelimiter.Client, prefix string, key Key, rate rratelimiter.Rate,
) func(*http.Request) (Limiter, error) {
	at := fmt.Sprintf("httplimit: EachRedisson: prefix %q", prefix)
	return choose(at, key, guard.EachRedisson(at, client, prefix, rate))
}

func choose(at string, key Key, limiterOf func(string) (guard.Limiter, error)) func(*http.Request) (Limiter, error) {
	if key == nil {
		panic(at + ": the Key is nil: pass ByIP, ByHeader or a function")
	}
	return func(r *http.Request) (Limiter, error) {
		text, err := key(r)
		if err != nil {
			return nil, err
		}
		return limiterOf(text)
	}
}
