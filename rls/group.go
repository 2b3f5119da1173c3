package rls

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/limit"
)

// group is descriptors that are decided atomically: all take their permits, or none does.
type group struct {
	members  []*descriptor
	slot     string
	joint    bool // other descriptors may join
	policies int
	follows  bool // an earlier group has one of its limiters too
	err      error
}

// place adds a descriptor to a group that it can join, or to a new one. Descriptors of a
// group share a slot and a cost. Two equal descriptors are decided one after the other.
func place(groups []*group, desc *descriptor, slot string, joint bool) []*group {
	follows := false
	for _, g := range groups {
		if g.has(desc.name) {
			follows = true
		} else if joint && g.takes(desc, slot) && !follows {
			g.members = append(g.members, desc)
			g.policies += len(desc.limits)
			return groups
		}
	}
	return append(groups, &group{
		members: []*descriptor{desc}, slot: slot, joint: joint, policies: len(desc.limits), follows: follows,
	})
}

func (g *group) takes(desc *descriptor, slot string) bool {
	first := g.members[0]
	return g.joint && !g.follows && g.slot == slot && first.hits == desc.hits && first.action == desc.action &&
		g.policies+len(desc.limits) <= policy.MaxJoined
}

func (g *group) has(name string) bool {
	return slices.ContainsFunc(g.members, func(m *descriptor) bool { return m.name == name })
}

// call calls Redis, and sets the status of each member.
func (g *group) call(ctx context.Context, s *Server) error {
	first := g.members[0]
	limiter, policies := first.limiter(s.config.Client)
	if len(g.members) > 1 {
		joined := []limit.Joinable{limiter}
		for _, desc := range g.members[1:] {
			other, more := desc.limiter(s.config.Client)
			joined, policies = append(joined, other), slices.Concat(policies, more)
		}
		limiter = limit.Join(joined...)
	}
	request := guard.Request{Limiter: limiter, Policies: policies, Permits: int64(max(1, first.hits))}
	overdraw := first.action == take && first.rule.overdraw
	if overdraw || first.action != take {
		request.Limiter = &operation{limiter, first.action, int64(first.hits), overdraw}
		request.Policies = append(slices.Clone(policies), nil) // two or more make the guard call TakeEach
	}
	answer := s.guard.Ask(ctx, request)
	each := answer.Each
	if each == nil {
		each = []rratelimiter.Decision{answer.Decision}
	}
	switch answer.Result {
	case guard.Acquired, guard.Rejected:
		if len(each) != g.policies {
			return s.failed(answer.Err) // no limiter of this package does this
		}
	case guard.Canceled:
		return status.FromContextError(ctx.Err()).Err()
	default:
		return s.failed(answer.Err)
	}
	for _, desc := range g.members {
		desc.conclude(each[:len(desc.limits)])
		each = each[len(desc.limits):]
	}
	return nil
}

// limiter opens the limiter of a descriptor, and returns the policies of its limits.
func (desc *descriptor) limiter(client *rratelimiter.Client) (*limit.Limiter, []limit.Policy) {
	key, plain := strings.CutPrefix(desc.name, namePrefix+":")
	if r := desc.rule; r.limiters != nil && plain && len(desc.limits) == len(r.limits) {
		return r.limiters.Limiter(key), r.policies
	}
	policies := policiesOf(desc.limits)
	return limit.New(client, desc.name, policies...), policies
}

func policiesOf(limits []*rateLimit) []limit.Policy {
	policies := make([]limit.Policy, len(limits))
	for i, one := range limits {
		policies[i] = one.policy
	}
	return policies
}

// operation wraps a limiter that peeks, releases, or takes with overdraw.
type operation struct {
	*limit.Limiter
	action   action
	hits     int64
	overdraw bool
}

// TakeEach performs the action.
func (l *operation) TakeEach(ctx context.Context, _ int64) ([]rratelimiter.Decision, error) {
	switch l.action {
	case release:
		if err := l.Release(ctx, l.hits); err != nil {
			return nil, err
		}
		each, err := l.Peek(ctx)
		for i := range each {
			each[i].Allowed = true
		}
		return each, err
	case peek:
		return l.Peek(ctx)
	}
	each, err := l.Limiter.TakeEach(ctx, l.hits)
	if err != nil && !errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
		return nil, err
	}
	denied := err != nil
	for _, one := range each {
		denied = denied || !one.Allowed
	}
	if !denied {
		return each, nil
	}
	if _, err := l.Charge(ctx, l.hits); err != nil {
		return nil, err
	}
	after, err := l.Peek(ctx)
	if err != nil {
		return nil, err
	}
	for i := range after {
		after[i].Allowed = i < len(each) && each[i].Allowed
	}
	return after, nil
}
