package guard

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Named is a policy with a name for clients.
type Named struct {
	limit.Policy
	Name string
}

// NewNamed names a policy. It returns an error if the name is invalid.
func NewNamed(name string, p limit.Policy) (Named, error) {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return Named{}, fmt.Errorf("the name %q of a policy is empty or not printable ASCII", name)
	}
	return Named{p, name}, nil
}

// Description describes a limiter's policies, in their order.
type Description struct {
	Policies []limit.Policy // as arguments of limit.New
	Quotas   []int64
	Names    []string // at least one
}

// unknown is the name of a policy without a description.
const unknown = "default"

// Describe describes policies. A Named policy keeps its name. The name of another one is its window
// or its kind.
func Describe(policies []limit.Policy) Description {
	policies = slices.Clone(policies)
	described := Description{Policies: policies, Names: make([]string, len(policies))}
	for i, p := range policies {
		if n, ok := p.(Named); ok {
			policies[i], described.Names[i] = n.Policy, n.Name
		}
		d, _ := policy.Of(policies[i])
		described.Quotas = append(described.Quotas, d.Quota)
	}
	for i, name := range described.Names {
		if name == "" {
			described.Names[i] = uniqueName(nameOf(policies[i]), described.Names)
		}
	}
	if len(policies) == 0 {
		described.Names = []string{unknown}
	}
	return described
}

// MustDescribe is Describe, but panics if a policy is invalid. The text begins with the caller. A nil
// policy is one that is unknown.
func MustDescribe(caller string, policies []limit.Policy) Description {
	d := Describe(policies)
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

// Name returns the name of a policy.
func (d *Description) Name(i int) string {
	if i < len(d.Names) {
		return d.Names[i]
	}
	return unknown + "-" + strconv.Itoa(i+1)
}

// Single returns the index of the policy that the decision of a whole limiter is about.
func (d *Description) Single(decision rratelimiter.Decision) int {
	return max(0, slices.Index(d.Quotas, decision.Limit))
}

// Violated returns the indexes of the policies that denied a request.
func (d *Description) Violated(a Answer, permits int64) []int {
	var violated []int
	switch {
	case a.Result != Rejected:
		return nil
	case len(a.Each) > 0:
		for i, decision := range a.Each {
			if !decision.Allowed {
				violated = append(violated, i)
			}
		}
	case errors.Is(a.Err, rratelimiter.ErrPermitsExceedRate):
		for i, quota := range d.Quotas {
			if quota < permits {
				violated = append(violated, i)
			}
		}
	}
	if violated == nil {
		return []int{d.Single(a.Decision)}
	}
	return violated
}
