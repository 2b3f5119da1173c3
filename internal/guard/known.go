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

// Named is a policy with the name by which clients are told of it.
type Named struct {
	limit.Policy
	Name string
}

// NewNamed names a policy, and says what is wrong with a name.
func NewNamed(name string, policy limit.Policy) (Named, error) {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' }) {
		return Named{}, fmt.Errorf("the name %q of a policy is empty or not printable ASCII", name)
	}
	return Named{policy, name}, nil
}

// Known is what is known of a limiter's policies, in their order.
type Known struct {
	Policies []limit.Policy // as limit.New wants them
	Quotas   []int64
	Names    []string // at least one
}

// unknown is the name of a policy of which nothing is known.
const unknown = "default"

// Describe tells policies by their names. Policies that are Named have theirs.
func Describe(policies []limit.Policy) Known {
	policies = slices.Clone(policies)
	given := make([]string, len(policies))
	k := Known{Policies: policies}
	for i, p := range policies {
		if n, ok := p.(Named); ok {
			policies[i], given[i] = n.Policy, n.Name
		}
		d, _ := policy.Of(policies[i])
		k.Quotas = append(k.Quotas, d.Quota)
	}
	k.Names = Names(policies, given)
	if len(policies) == 0 {
		k.Names = []string{unknown}
	}
	return k
}

// Check returns the error of an invalid policy among those that are known.
func (k *Known) Check() error {
	for _, p := range k.Policies {
		if p == nil {
			continue
		}
		if err := limit.Validate(p); err != nil {
			return err
		}
	}
	return nil
}

// Name is the name of a policy.
func (k *Known) Name(i int) string {
	if i < len(k.Names) {
		return k.Names[i]
	}
	return unknown + "-" + strconv.Itoa(i+1)
}

// Single is the policy that the decision of a whole limiter tells of.
func (k *Known) Single(d rratelimiter.Decision) int {
	return max(0, slices.Index(k.Quotas, d.Limit))
}

// Violated is the policies that refused a request of so many permits.
func (k *Known) Violated(a Answer, permits int64) []int {
	var violated []int
	switch {
	case a.Result != Refused:
		return nil
	case len(a.Each) > 0:
		for i, d := range a.Each {
			if !d.Allowed {
				violated = append(violated, i)
			}
		}
	case errors.Is(a.Err, rratelimiter.ErrPermitsExceedRate):
		for i, quota := range k.Quotas {
			if quota < permits {
				violated = append(violated, i)
			}
		}
	}
	if violated == nil {
		return []int{k.Single(a.Decision)}
	}
	return violated
}
