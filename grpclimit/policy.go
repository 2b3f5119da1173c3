package grpclimit

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Named gives a policy a name for clients, for [Each] and [Policies]. Without it, the name of a
// policy is its window, such as second, minute, day or 10s, or its kind: bucket, leaky, smooth.
//
// Named panics if the name is empty or not printable ASCII.
func Named(name string, policy limit.Policy) limit.Policy {
	named, err := guard.NewNamed(name, policy)
	if err != nil {
		panic("grpclimit: Named: " + err.Error())
	}
	return named
}

// Describe returns a function that attaches a description of policies to a limiter. A chooser of
// yours returns the result of that function. Use Describe if calls have limiters with different
// policies; otherwise [Policies] is enough. For a policy that is unknown, such as the rate of a
// *[rratelimiter.Limiter] in Redis, pass nil, or nil with a name by [Named]. Describe once and
// reuse the function, since to describe policies takes some microseconds. Describe panics if a
// policy is invalid.
func Describe(policies ...limit.Policy) func(Limiter) Limiter {
	d := describe(guard.MustDescribe("grpclimit: Describe", policies))
	return func(l Limiter) Limiter { return guard.WithDescription(l, d) }
}

// description describes the policies of a limiter to clients.
type description struct {
	guard.Description
	failures [][]*anypb.Any // the QuotaFailure of each policy alone
}

// describe adds what clients see.
func describe(described guard.Description) *description {
	d := &description{Description: described}
	for i, quota := range d.Quotas {
		d.failures = append(d.failures, detail(&errdetails.QuotaFailure{
			Violations: []*errdetails.QuotaFailure_Violation{violation(d.Names[i], quota, "", false)},
		}))
	}
	return d
}
