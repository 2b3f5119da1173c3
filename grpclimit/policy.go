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
	known := mustDescribe("Describe", policies)
	return func(l Limiter) Limiter { return &described{l, known} }
}

// described is a limiter with a description of its policies.
type described struct {
	Limiter
	known *description
}

// description describes the policies of a limiter to clients.
type description struct {
	guard.Description
	failures [][]*anypb.Any // the QuotaFailure of each policy alone
}

// mustDescribe is describe, but panics if a policy is invalid.
func mustDescribe(caller string, policies []limit.Policy) *description {
	k := describe(policies)
	if err := k.Check(); err != nil {
		panic("grpclimit: " + caller + ": " + err.Error())
	}
	return k
}

// describe returns the description of policies.
func describe(policies []limit.Policy) *description {
	k := &description{Description: guard.Describe(policies)}
	for i, quota := range k.Quotas {
		k.failures = append(k.failures, detail(&errdetails.QuotaFailure{
			Violations: []*errdetails.QuotaFailure_Violation{violation(k.Names[i], quota, "", false)},
		}))
	}
	return k
}
