package grpclimit

import (
	"fmt"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/rratelimiter/rratelimiter/internal/door"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Named gives a policy the name by which clients are told of it, for [Each] and [Policies]. Without it a policy is named by its
// window, as second, minute, day or 10s, or by its kind: bucket, leaky, smooth.
//
// Named panics where the name is empty or not printable ASCII.
func Named(name string, policy limit.Policy) limit.Policy {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		panic(fmt.Sprintf("grpclimit: Named: the name %q of a policy is empty or not printable ASCII", name))
	}
	return door.Named{Policy: policy, Name: name}
}

// known is what clients are told of a limiter's policies.
type known struct {
	door.Known
	failures [][]*anypb.Any // the QuotaFailure of each policy alone
}

// describe tells policies by their names.
func describe(policies []limit.Policy) *known {
	k := &known{Known: door.Describe(policies)}
	for i, quota := range k.Quotas {
		k.failures = append(k.failures, detail(&errdetails.QuotaFailure{
			Violations: []*errdetails.QuotaFailure_Violation{violation(k.Names[i], quota, "", false)},
		}))
	}
	return k
}
