package limit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// plan is the part that limiters with the same policies share.
type plan struct {
	client        inside.Client
	members       []member       // without names and keys
	most          int64          // permits that can be granted at once, by the policies
	acquires      *redisx.Script // takes permits
	waits         *redisx.Script // takes permits for callers that wait
	leadPermits   int64          // see internal/include/share.lua
	permitMillis  string         // likewise
	timed         bool           // the scripts read the time
	epochs        bool           // the scripts that take permits read an epoch
	expires       bool           // a key may lack an expiry, which another program may have left so
	flat          bool           // a lone Take has a flat reply: see protocol.flat
	prefetches    bool           // all policies can prefetch
	redisson      bool           // a member is of Redisson's layout
	tick          time.Duration  // the precision of the time in calls
	holds         []heldMember   // those whose permits are held until they are returned
	countsDenials bool           // a member counts denials, so that none is answered from memory
	spread        time.Duration  // of the waiters for one permit, if a policy is a bucket: see state.Lag
	kinds         string         // of the policies, for an Observer
}

// newPlan returns the plan of limiters of a client, or the error of an invalid client or policy.
func newPlan(client *rratelimiter.Client, policies []Policy) (*plan, error) {
	opened, ok := inside.Of[inside.Client](client)
	if !ok {
		return nil, fmt.Errorf("%w: create the Client with New and a rueidis.Client", rratelimiter.ErrNoClient)
	}
	if opened.Err != nil {
		return nil, opened.Err
	}
	described, err := describeAll(policies)
	if err != nil {
		return nil, err
	}
	members := make([]member, len(policies))
	for i, p := range policies {
		p, _ = policy.Plain(p).(Policy) // as described
		members[i] = member{policy: p, described: &described[i], fingerprint: fmt.Sprintf("%#v", p)}
	}
	return planOf(opened, members), nil
}

// planOf returns the plan of valid policies.
func planOf(client inside.Client, members []member) *plan {
	p := &plan{client: client, members: members, most: engine.MaxPermits, acquires: scriptFor(acquireCall, members),
		waits: scriptFor(waitCall, members)}
	p.timed, p.epochs = readsTime(acquireCall, members), readsEpoch(acquireCall, members)
	p.expires = has(members, "expire")
	kinds := make([]string, len(members))
	for i, m := range members {
		// Those of Redisson's layout differ from call to call.
		if m.arguments == nil && m.redisson == nil && !m.described.Dated {
			members[i].arguments = m.policy.arguments(nil, time.Time{})
		}
		p.most = min(p.most, m.described.Most)
		kinds[i] = m.described.Name
		if d := m.described; d.Refill == policy.Evenly || d.Refill == policy.OnCredit {
			spread := max(1, time.Duration(float64(d.Local.Interval)/float64(d.Local.Returns))/5)
			p.spread = min(spread, cmp.Or(p.spread, spread))
		}
	}
	p.flat = len(members) == 1 && members[0].described.Refill == policy.Together
	p.leadPermits, p.permitMillis = leadOf(members)
	slices.Sort(kinds)
	p.kinds = strings.Join(slices.Compact(kinds), "+")
	p.prefetches = !slices.ContainsFunc(members, func(m member) bool { return !m.has("prefetch") })
	p.tick = time.Microsecond
	if p.redisson = slices.ContainsFunc(members, isRedisson); p.redisson { // which counts in milliseconds
		p.tick = time.Millisecond
	}
	for i, m := range members {
		if isHeld(m) {
			p.holds = append(p.holds, heldMember{i, argument(acquireCall, members, i) + placeArg})
		}
	}
	p.countsDenials = slices.ContainsFunc(members, isPenalty)
	return p
}

// leadFor is the time for whose permits a Client may be ahead of the others.
const leadFor = 250 * time.Millisecond

// leadOf returns the permits of leadFor, at the slowest rate of the members, and the milliseconds of a permit at the
// fastest one, at most those of leadFor. Rates in Redis are left to the script.
func leadOf(members []member) (lead int64, permit string) {
	slowest, fastest := math.Inf(1), 1.
	for _, m := range members {
		if local := m.described.Local; local.Interval > 0 && m.described.Quota > 0 {
			rate := float64(local.Returns) * leadFor.Seconds() / local.Interval.Seconds()
			slowest, fastest = min(slowest, rate), max(fastest, rate)
		}
	}
	milliseconds := leadFor.Seconds() * 1000 / fastest
	return int64(max(1, min(slowest, maxPermits))), strconv.FormatFloat(milliseconds, 'f', 4, 64)
}

// Validate returns the error that [New] would report for these policies, or nil if they are valid.
// An invalid field, no policy, more than 10 policies, or two that would share a key are
// [rratelimiter.ErrInvalidRate].
func Validate(policies ...Policy) error {
	_, err := describeAll(policies)
	return err
}

// describeAll returns the descriptions of valid policies, or the error of Validate.
func describeAll(policies []Policy) ([]policy.Description, error) {
	if n := len(policies); n < 1 || n > policy.MaxJoined {
		return nil, invalid("%d policies, want 1 to %d", n, policy.MaxJoined)
	}
	described := make([]policy.Description, len(policies))
	for i, p := range policies {
		d, ok := policy.Of(p)
		if !ok {
			return nil, invalid("policy %d is a %T, give a policy of this package by value", i+1, p)
		}
		if err := p.validate(); err != nil {
			return nil, err
		}
		if err := d.Check(); err != nil {
			return nil, invalid("policy %d: %v", i+1, err)
		}
		for before := range i {
			if described[before].Key == d.Key {
				return nil, invalid("%+v and %+v would count in the same key", policies[before], p)
			}
		}
		described[i] = d
	}
	return described, nil
}

// keyPrefix is the beginning of the keys of a name, in three parts.
type keyPrefix struct{ before, name, after string }

// prefixOf returns the beginning of the keys of a name, in the cluster slot of the name. A name
// without "{" becomes the hash tag. A name with "{" keeps its own, and gets two colons: so "bob"
// and "{bob}" share a slot but no key.
func prefixOf(name string) keyPrefix {
	if strings.Contains(name, "{") {
		return keyPrefix{"", name, "::"}
	}
	return keyPrefix{"{", name, "}:"}
}

// member is one policy of a limiter.
type member struct {
	policy      Policy
	described   *policy.Description
	fingerprint string   // all fields of the policy
	name        string   // that it was opened with
	keys        []string // one, but those of a limiter of Redisson's layout

	arguments []string // if they are the same in each call; else nil, and the policy has them

	redisson *inside.Limiter // of Redisson's layout, whose rate is in Redis; else nil
}

// types returns the type of each of its keys, as TYPE names it.
func (m member) types() []string {
	if m.redisson != nil {
		return m.redisson.Types
	}
	return []string{m.described.Type}
}

func isRedisson(m member) bool { return m.redisson != nil }

// has reports whether a member has a section.
func has(members []member, section string) bool {
	return slices.ContainsFunc(members, func(m member) bool { return m.has(section) })
}

// has reports whether the scripts of the policy have a section.
func (m member) has(section string) bool { return sections[m.described.Lua][section] != "" }

// hasIn is has in the script of a call: all policies that count permits share the section "drain".
func (m member) hasIn(c call, section string) bool {
	return m.has(section) || c == drainCall && section == string(drainCall) && m.drains()
}

// drains reports whether Drain takes permits of a policy of this package.
func (m member) drains() bool {
	return m.redisson == nil && m.described.Refill != policy.Pausing && !isHeld(m)
}

// drainable returns the free permits of the policies of the same limiter that Drain takes from, in a script.
func drainable(members []member, index int) string {
	var free []string
	for i, m := range members {
		switch {
		case !m.drains() || m.name != members[index].name:
		case m.described.Refill == policy.OnCredit:
			free = append(free, fmt.Sprintf("floor(left%d)", i+1))
		default:
			free = append(free, fmt.Sprintf("free%d", i+1))
		}
	}
	return strings.Join(free, ", ")
}

// takesPart reports whether a policy is part of the script of a call. Those that take or read need all.
func (m member) takesPart(c call) bool {
	return c == acquireCall || c == waitCall || c == chargeCall || c == peekCall || c == drainCall || m.has(string(c))
}
