// Package policytest has policies that no package but their own knows, for tests that a new policy
// works, or is refused with a reason, wherever a policy can be given.
package policytest

import (
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Novel is a policy that describes itself, as "novel".
type Novel struct{ limit.FixedWindow }

// Incomplete is a policy whose description has no local share, as "incomplete".
type Incomplete struct{ limit.FixedWindow }

// Register registers both kinds until the test ends.
func Register(t testing.TB) {
	describe := func(p limit.FixedWindow) policy.Description {
		return policy.Description{
			Key: "novel", Label: "novel", Quota: p.Permits, Most: p.Permits, Window: p.Interval, Refill: policy.Together,
		}
	}
	window := func(r policy.Rate) limit.FixedWindow {
		return limit.FixedWindow{Permits: r.Permits, Interval: r.Interval}
	}
	t.Cleanup(policy.Register(policy.Kind{
		Name: "novel", New: func(r policy.Rate) any { return Novel{window(r)} },
	}, func(p Novel) policy.Description {
		d := describe(p.FixedWindow)
		d.Local = policy.Local{Permits: p.Permits, Returns: p.Permits, Interval: p.Interval, Strict: true}
		return d
	}))
	t.Cleanup(policy.Register(policy.Kind{
		Name: "incomplete", New: func(r policy.Rate) any { return Incomplete{window(r)} },
	}, func(p Incomplete) policy.Description { return describe(p.FixedWindow) }))
}

// Window is a window of three permits an hour, for both kinds.
var Window = limit.FixedWindow{Permits: 3, Interval: time.Hour}
