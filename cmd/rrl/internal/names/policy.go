package names

import (
	"fmt"

	_ "time/tzdata" // calendars work without time zones on the machine

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Stored is a policy of package limit as a key has it: without the permits. The Policy has as few as
// possible, for calls that take none.
type Stored struct {
	limit.Policy
	policy.Description
}

// ParseStored parses the policy in a key.
func ParseStored(part string) (Stored, bool) {
	p, ok := policy.ParseKey(part)
	least, known := p.(limit.Policy)
	if !ok || !known || limit.Validate(least) != nil {
		return Stored{}, false
	}
	d, _ := policy.Of(p)
	return Stored{least, d}, true
}

// KeyOf returns the key of the policy of a limiter.
func (s Stored) KeyOf(name string) string { return ofPolicy(name, s.Key) }

// String formats the policy in the notation of --policy, without its permits.
func (s Stored) String() string { return policy.Short(s.Policy) }

// OnCredit reports whether the policy has no taken permits, but a time at which it grants again.
func (s Stored) OnCredit() bool { return s.Refill == policy.OnCredit }

// Pauses reports whether the policy is a pause, which has no permits.
func (s Stored) Pauses() bool { return s.Refill == policy.Pausing }

// Given is a policy given by the user.
type Given struct {
	limit.Policy
	Stored Stored // the part in its key
	Most   int64  // the limit, 0 if it has none
}

// ParsePolicy parses a policy of package limit.
func ParsePolicy(text string) (Given, error) {
	parsed, err := policy.Parse(text)
	p, ok := parsed.(limit.Policy)
	if err == nil && ok {
		err = limit.Validate(p)
	}
	if err != nil {
		return Given{}, fmt.Errorf("%q is not a policy: %w; the notation is:\n%s", text, err, policy.Help())
	}
	return NewGiven(p)
}

// NewGiven returns the Given of a policy.
func NewGiven(p limit.Policy) (Given, error) {
	d, _ := policy.Of(p)
	stored, ok := ParseStored(d.Key)
	if !ok {
		return Given{}, fmt.Errorf("rrl cannot read the keys of %T", p)
	}
	g := Given{Policy: p, Stored: stored}
	if !stored.OnCredit() {
		g.Most = d.Quota
	}
	return g, nil
}
