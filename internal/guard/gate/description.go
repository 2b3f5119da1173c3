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
	Policies        []limit.Policy // as arguments of limit.New
	terms           []Term
	kinds           []policy.Description // of the Policies
	unknownPolicies bool                 // the limiter of All has unknown policies, and so no share for Local
}

// Term describes one policy.
type Term struct {
	Name  string // printable ASCII
	Quota int64  // 0 if it is unknown
	// Window is the interval of the quota. For a bucket it is the time in which it fills. It is 0 if
	// the interval has no fixed length, or is unknown.
	Window time.Duration
	Held   bool // requests hold the permits until they have ended
}

// unknown is the name of a policy without a description.
const unknown = "default"

// Describe describes policies in their order. The name of a policy is that of limit.Named, or else its
// window or its kind.
func Describe(policies ...limit.Policy) *Description {
	d := &Description{Policies: slices.Clone(policies), terms: make([]Term, len(policies))}
	d.kinds = make([]policy.Description, len(policies))
	for i, p := range policies {
		of, _ := policy.Of(p)
		d.kinds[i], d.terms[i] = of, Term{of.Shown, of.Quota, of.Window, of.Refill == policy.Held}
	}
	used := make(map[string]bool, len(d.terms))
	for _, stated := range []bool{true, false} { // a stated name stays as it is, if it is there once
		for i := range d.terms {
			if t := &d.terms[i]; stated == (d.kinds[i].Shown != "") {
				t.Name = unused(cmp.Or(t.Name, nameOf(d.kinds[i])), used)
				used[t.Name] = true
			}
		}
	}
	return d
}

// Distinct returns the description of at least n policies with names that are not used, and adds these.
func (d *Description) Distinct(n int, used map[string]bool) *Description {
	distinct := &Description{Policies: d.Policies, kinds: d.kinds}
	for i := range max(n, len(d.terms)) {
		t := d.Term(i)
		t.Name = unused(t.Name, used)
		used[t.Name] = true
		distinct.terms = append(distinct.terms, t)
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

// Term describes a policy, also one that the description lacks.
func (d *Description) Term(i int) Term {
	switch {
	case i < len(d.terms):
		return d.terms[i]
	case i == 0:
		return Term{Name: unknown}
	}
	return Term{Name: unknown + "-" + strconv.Itoa(i+1)}
}

// Single returns the index of the policy that the decision of a whole limiter is about: one with its
// limit, or else one of an unknown quota.
func (d *Description) Single(decision rratelimiter.Decision) int {
	for _, quota := range []int64{decision.Limit, 0} {
		if i := slices.IndexFunc(d.terms, func(t Term) bool { return t.Quota == quota }); i >= 0 {
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
	outage.Limiter
	description *Description
}

// descriptionOf returns the description of a limiter. The rate of a *rratelimiter.Limiter is in Redis.
func descriptionOf(l outage.Limiter) *Description {
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
		for i, t := range d.terms {
			if t.Quota > 0 && t.Quota < o.Cost {
				denying = append(denying, i)
			}
		}
	}
	if denying == nil {
		return []int{d.Single(o.Decision)}
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
