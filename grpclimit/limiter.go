package grpclimit

import (
	"context"
	"fmt"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Limiter limits calls: a *[rratelimiter.Limiter], a *[limit.Limiter], or any other type with Take
// and Name. [httplimit.Limiter] lists more methods.
type Limiter = limit.Joinable

// All limits all calls by one limiter. A nil limiter lets them pass. All panics if the
// client, the name or a policy of the limiter is invalid.
func All(limiter Limiter) func(context.Context, Call) (Limiter, error) {
	limiter = guard.All("grpclimit: All", limiter)
	return func(context.Context, Call) (Limiter, error) { return limiter, nil }
}

// Each limits the calls of each key by a limiter of their own, with the given policies, as
// [httplimit.Each] does. For the name "api" and the key "192.0.2.1", it is "api:192.0.2.1". An empty or
// unknown key is an error. Each panics if the client, the name or a policy is invalid.
func Each(client *rratelimiter.Client, name string, key Key, policies ...limit.Policy,
) func(context.Context, Call) (Limiter, error) {
	at := fmt.Sprintf("grpclimit: Each: name %q", name)
	return choose(at, key, guard.Each(at, client, name, policies))
}

// EachRedisson limits the calls of each key by a limiter of their own in Redisson's layout, as
// [httplimit.EachRedisson] does: redisson.getRateLimiter(prefix + key). An empty or unknown key is an
// error. EachRedisson panics if the client, the prefix or the rate is invalid.
func EachRedisson(client *rratelimiter.Client, prefix string, key Key, rate rratelimiter.Rate,
) func(context.Context, Call) (Limiter, error) {
	at := fmt.Sprintf("grpclimit: EachRedisson: prefix %q", prefix)
	return choose(at, key, guard.EachRedisson(at, client, prefix, rate))
}

func choose(at string, key Key, limiterOf func(string) (guard.Limiter, error),
) func(context.Context, Call) (Limiter, error) {
	if key == nil {
		panic(at + ": the Key is nil: pass ByIP, ByMetadata or a function")
	}
	return func(ctx context.Context, call Call) (Limiter, error) {
		text, err := key(ctx, call)
		if err != nil {
			return nil, err
		}
		return limiterOf(text)
	}
}
