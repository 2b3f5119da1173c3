// Package policytest has policies that no package but their own knows, for tests that a new policy
// works, or is refused with a reason, wherever a policy can be given.
package policytest

import (
	"strings"
	"testing"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Novel is a policy that describes itself, as "novel". Its keys begin with that, too.
type Novel struct{ limit.FixedWindow }

// Incomplete is a policy whose description has no local share, as "incomplete". No key has it.
type Incomplete struct{ limit.FixedWindow }

// Register registers both kinds until the test ends.
func Register(t testing.TB) {
	window := func(r policy.Rate) limit.FixedWindow {
		return limit.FixedWindow{Permits: r.Permits, Interval: r.Interval}
	}
	t.Cleanup(policy.Register(policy.Kind[Novel]{
		Name: "novel",
		Describe: func(p Novel) policy.Description {
			d, _ := policy.Of(p.FixedWindow)
			d.Label, d.Key = "novel", strings.Replace(d.Key, "window", "novel", 1)
			return d
		},
		New:   func(r policy.Rate) Novel { return Novel{window(r)} },
		Words: []string{"novel"},
		Read:  func(p Novel, c policy.Content) (policy.State, bool) { return policy.Read(p.FixedWindow, c) },
	}))
	t.Cleanup(policy.Register(policy.Kind[Incomplete]{
		Name: "incomplete",
		Describe: func(p Incomplete) policy.Description {
			d, _ := policy.Of(p.FixedWindow)
			d.Label, d.Key, d.Local = "incomplete", "incomplete", policy.Local{}
			return d
		},
		New: func(r policy.Rate) Incomplete { return Incomplete{window(r)} },
	}))
}

// Window is a window of three permits an hour, for both kinds.
var Window = limit.FixedWindow{Permits: 3, Interval: time.Hour}
