package httplimit

import (
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Named gives a policy a name for clients, for [Each] and [Policies]. Without it, the name of a
// policy is its window, such as second, minute, day or 10s, or its kind: bucket, leaky, smooth.
//
// Named panics if the name is empty or not printable ASCII.
func Named(name string, policy limit.Policy) limit.Policy {
	return guard.MustName("httplimit: Named", name, policy)
}

// Describe returns a function that attaches a description of policies to a limiter. A chooser of
// yours returns the result of that function. Use Describe if requests have limiters with different
// policies; otherwise [Policies] is enough. For a policy that is unknown, such as the rate of a
// *[rratelimiter.Limiter] in Redis, pass nil, or nil with a name by [Named]. Describe once and
// reuse the function, since to describe policies takes some microseconds. Describe panics if a
// policy is invalid.
func Describe(policies ...limit.Policy) func(Limiter) Limiter {
	d := guard.MustDescribe("httplimit: Describe", policies...)
	return func(l Limiter) Limiter { return d.Of(l) }
}
