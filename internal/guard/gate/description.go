package gate

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/notation"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Description describes the policies of a limiter to clients.
type Description struct {
	Policies        []limit.Policy       // as arguments of limit.New
	kinds           []policy.Description // of the Policies, each Shown under a name of its own, printable ASCII
	unknownPolicies bool                 // the limiter of All has unknown policies, and so no share for Local
}

// unknown is the name of a policy without a description.
const unknown = "default"

// Describe describes policies in their order. The name of a policy is that of limit.Named, or else its
// window or its kind.
func Describe(policies ...limit.Policy) *Description {
	d := &Description{Policies: slices.Clone(policies), kinds: make([]policy.Description, len(policies))}
	for i, p := range policies {
		d.kinds[i], _ = policy.Of(p)
	}
	used := make(map[string]bool, len(d.kinds))
	for _, stated := range []bool{true, false} { // a stated name stays as it is, if it is there once
		for i := range d.kinds {
			if of := &d.kinds[i]; stated == (of.Shown != "") {
				of.Shown = unused(cmp.Or(of.Shown, nameOf(*of)), used)
				used[of.Shown] = true
			}
		}
	}
	return d
}

// WithDistinctNames returns the description of at least n policies with names that are not used, and adds these.
func (d *Description) WithDistinctNames(n int, used map[string]bool) *Description {
	distinct := &Description{Policies: d.Policies}
	for i := range max(n, len(d.kinds)) {
		of := *d.Policy(i)
		of.Shown = unused(of.Shown, used)
		used[of.Shown] = true
		distinct.kinds = append(distinct.kinds, of)
	}
	return distinct
}

// unused returns a name, with a number if it is used.
func unused(name string, used map[string]bool) string {
	numbered := name
	for n := 2; used[numbered]; n++ {
		numbered = name + "-" + strconv.Itoa(n)
	}
	return numbered
}

// Policy describes a policy, also one that the description lacks.
func (d *Description) Policy(i int) *policy.Description {
	switch {
	case i < len(d.kinds):
		return &d.kinds[i]
	case i == 0:
		return &policy.Description{Shown: unknown}
	}
	return &policy.Description{Shown: unknown + "-" + strconv.Itoa(i+1)}
}

// IndexOf returns the index of the policy that the decision of a whole limiter is about: one with its
// limit, or else one of an unknown quota.
func (d *Description) IndexOf(decision rratelimiter.Decision) int {
	for _, quota := range []int64{decision.Limit, 0} {
		if i := slices.IndexFunc(d.kinds, func(of policy.Description) bool { return of.Quota == quota }); i >= 0 {
			return i
		}
	}
	return 0
}

// nameOf returns the name of a policy without one of its own.
func nameOf(of policy.Description) string {
	return cmp.Or(of.Label, windows[of.Window], notation.FormatDuration(of.Window))
}

// windows are the names of some windows.
var windows = map[time.Duration]string{
	0: unknown, time.Second: "second", time.Minute: "minute", time.Hour: "hour", 24 * time.Hour: "day",
	7 * 24 * time.Hour: "week",
}

type describedLimiter struct {
	limit.Joinable
	description *Description
}

// descriptionOf returns the description of a limiter. The rate of a *rratelimiter.Limiter is in Redis.
func descriptionOf(l limit.Joinable) *Description {
	if l, ok := l.(interface{ Policies() []limit.Policy }); ok {
		return Describe(l.Policies()...)
	}
	return noDescription
}

var noDescription = Describe()

// Denying returns the indexes of the policies that denied a request.
func (d *Description) Denying(o *limit.Outcome) []int {
	var denying []int
	switch {
	case o.Result != limit.Rejected:
		return nil
	case len(o.Each) > 0:
		for i, decision := range o.Each {
			if !decision.Allowed {
				denying = append(denying, i)
			}
		}
	case errors.Is(o.Err, rratelimiter.ErrPermitsExceedRate):
		for i, of := range d.kinds {
			if of.Quota > 0 && of.Quota < o.Cost {
				denying = append(denying, i)
			}
		}
	}
	if denying == nil {
		return []int{d.IndexOf(o.Decision)}
	}
	return denying
}

// Until returns a time during which at most Remaining permits are free by the decision of policy i, since the next
// permit returns later. It returns 0 if that time is unknown. share is that of the limit which decided, 0 for all of it.
func (d *Description) Until(o *limit.Outcome, share float64, i int) time.Duration {
	one, cost, kind := o.Decision, o.Cost, policy.Description{} // of an unknown policy
	if len(o.Each) > 0 {
		one = o.Each[i]
	}
	if len(d.Policies) == max(1, len(o.Each)) {
		if kind = d.kinds[i]; share > 0 && kind.Refill != policy.Held {
			next, _ := outage.NextPermit(kind, share, one)
			return next
		}
		if one.Allowed && !o.Decision.Allowed { // another policy denied, and the request took nothing
			cost = 0
		}
	}
	switch kind.Refill {
	case policy.Held:
		return 0 // a permit may return at any time
	case policy.Together:
		return one.ResetAfter
	case policy.Evenly:
		if next, capacity := outage.NextPermit(kind, 1, one); capacity == one.Limit {
			return next
		}
		return 0
	case policy.OnCredit, policy.Pausing: // on credit, Remaining bounds a request only while all wait
		return one.RetryAfter
	case policy.ByAge:
		if one.Allowed && one.Remaining+cost == one.Limit {
			return one.ResetAfter // only these permits are taken
		}
	}
	if !one.Allowed && one.Remaining+1 == cost {
		return one.RetryAfter // when the next permit returns
	}
	return 0
}
