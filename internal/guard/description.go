package guard

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/notation"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

type named struct {
	limit.Policy
	name string
}

// MustName names a policy. It panics if the name is invalid, with a text that begins with the caller.
func MustName(caller, name string, p limit.Policy) limit.Policy {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		panic(fmt.Sprintf("%s: the name %q of a policy is empty or not printable ASCII", caller, name))
	}
	return named{p, name}
}

// Description describes the policies of a limiter to clients.
type Description struct {
	Policies []limit.Policy // as arguments of limit.New
	terms    []Term
}

// Term describes one policy.
type Term struct {
	Name  string // printable ASCII
	Quota int64  // 0 if it is unknown
	// Window is the interval of the quota. For a bucket it is the time in which it fills. It is 0 if
	// the interval has no fixed length, or is unknown.
	Window time.Duration
}

// unknown is the name of a policy without a description.
const unknown = "default"

// Describe describes policies in their order. The name of a policy is that of MustName, or else its
// window or its kind.
func Describe(policies ...limit.Policy) *Description {
	d := &Description{Policies: slices.Clone(policies), terms: make([]Term, len(policies))}
	for i, p := range policies {
		if n, ok := p.(named); ok {
			d.Policies[i], d.terms[i].Name = n.Policy, n.name
		}
	}
	for i := range d.terms {
		of, _ := policy.Of(d.Policies[i])
		t := &d.terms[i]
		t.Quota, t.Window = of.Quota, of.Window
		if t.Name == "" {
			t.Name = d.unusedName(nameOf(of), func(string) bool { return false })
		}
	}
	return d
}

// MustDescribe is Describe, but panics if a policy is invalid. The text begins with the caller. A nil
// policy is one that is unknown.
func MustDescribe(caller string, policies ...limit.Policy) *Description {
	d := Describe(policies...)
	for _, p := range d.Policies {
		if p == nil {
			continue
		}
		if err := limit.Validate(p); err != nil {
			panic(caller + ": " + err.Error())
		}
	}
	return d
}

// Distinct returns the description of at least n policies with names of which none is taken.
func (d *Description) Distinct(n int, taken func(name string) bool) *Description {
	distinct := &Description{Policies: d.Policies}
	for i := range max(n, len(d.terms)) {
		t := d.Term(i)
		t.Name = distinct.unusedName(t.Name, taken)
		distinct.terms = append(distinct.terms, t)
	}
	return distinct
}

// unusedName returns a name, with a number if it is taken or another policy has it.
func (d *Description) unusedName(name string, taken func(name string) bool) string {
	unused := name
	hasName := func(t Term) bool { return t.Name == unused }
	for n := 2; taken(unused) || slices.ContainsFunc(d.terms, hasName); n++ {
		unused = fmt.Sprintf("%s-%d", name, n)
	}
	return unused
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

// Violated returns the indexes of the policies that denied a request.
func (d *Description) Violated(a Answer, permits int64) []int {
	var violated []int
	switch {
	case d == nil || a.Result != limit.Rejected:
		return nil
	case len(a.Each) > 0:
		for i, decision := range a.Each {
			if !decision.Allowed {
				violated = append(violated, i)
			}
		}
	case errors.Is(a.Err, rratelimiter.ErrPermitsExceedRate):
		for i, t := range d.terms {
			if t.Quota > 0 && t.Quota < permits {
				violated = append(violated, i)
			}
		}
	}
	if violated == nil {
		return []int{d.Single(a.Decision)}
	}
	return violated
}

// Names returns the names of policies.
func (d *Description) Names(policies []int) []string {
	var names []string
	for _, i := range policies {
		names = append(names, d.Term(i).Name)
	}
	return names
}

// nameOf returns the name of a policy without one of its own.
func nameOf(of policy.Description) string {
	if of.Label != "" {
		return of.Label
	}
	switch of.Window {
	case 0:
		return unknown
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	case 24 * time.Hour:
		return "day"
	case 7 * 24 * time.Hour:
		return "week"
	}
	return notation.FormatDuration(of.Window)
}
