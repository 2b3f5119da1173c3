package grpclimit

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Named gives a policy the name by which clients are told of it, for [Each] and [Policies]. Without it a policy is named by its
// window, as second, minute, day or 10s, or by its kind: bucket, leaky, smooth.
//
// Named panics where the name is empty or not printable ASCII.
func Named(name string, policy limit.Policy) limit.Policy {
	named, err := guard.NewNamed(name, policy)
	if err != nil {
		panic("grpclimit: Named: " + err.Error())
	}
	return named
}

// Describe gives what tells interceptors the policies of limiters that a chooser of your own makes, in their order, where those of all
// calls are not the same ([Policies]): a chooser gives what Describe's func makes of a limiter. Where a policy is not known, as that of
// a *[rratelimiter.Limiter] whose rate is in Redis, nil stands in its place, with a name by [Named]. To describe policies costs
// some microseconds, to use the description again nothing. Describe panics if a policy is invalid.
func Describe(policies ...limit.Policy) func(Limiter) Limiter {
	known := mustDescribe("Describe", policies)
	return func(l Limiter) Limiter { return &described{l, known} }
}

// described is a limiter, and what is known of its policies.
type described struct {
	Limiter
	known *known
}

// known is what clients are told of a limiter's policies.
type known struct {
	guard.Known
	failures [][]*anypb.Any // the QuotaFailure of each policy alone
}

// mustDescribe is describe that panics if a policy is invalid.
func mustDescribe(caller string, policies []limit.Policy) *known {
	k := describe(policies)
	if err := k.Check(); err != nil {
		panic("grpclimit: " + caller + ": " + err.Error())
	}
	return k
}

// describe tells policies by their names.
func describe(policies []limit.Policy) *known {
	k := &known{Known: guard.Describe(policies)}
	for i, quota := range k.Quotas {
		k.failures = append(k.failures, detail(&errdetails.QuotaFailure{
			Violations: []*errdetails.QuotaFailure_Violation{violation(k.Names[i], quota, "", false)},
		}))
	}
	return k
}
