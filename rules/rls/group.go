package rls

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/limit"
)

// group is descriptors of one cost that one call decides: all take their permits, or none does.
type group struct {
	members []*descriptor
	joint   gate.Joint     // of the members
	limiter limit.Joinable // that was asked
	answer  outage.Answer
	each    []rratelimiter.Decision // of the policies of all members
}

// add adds a descriptor if it can join the others.
func (g *group) add(desc *descriptor) bool {
	if len(g.members) > 0 && (g.members[0].cost != desc.cost || g.members[0].action != desc.action) {
		return false
	}
	joint, ok := g.joint.With(desc.member, false) // the lane has one slot
	if ok {
		g.members, g.joint = append(g.members, desc), joint
	}
	return ok
}

func (g *group) has(name string) bool {
	return slices.ContainsFunc(g.members, func(m *descriptor) bool { return m.name == name })
}

// cost returns the number of permits that each policy grants.
func (g *group) cost() uint64 {
	if first := g.members[0]; first.action == take {
		return first.cost
	}
	return 0
}

// call calls Redis, and sets the status of each member. It ends at a time, or without one by the deadline of the Guard.
func (g *group) call(ctx context.Context, end time.Time, s *Server) error {
	limited := ctx
	if !end.IsZero() {
		var stop context.CancelFunc
		limited, stop = context.WithDeadline(ctx, end)
		defer stop()
	}
	first := g.members[0]
	limiter, policies := g.joint.Limiter()
	demand := outage.Demand{Limiter: limiter, Each: len(policies) > 1, Permits: int64(max(1, first.cost))}
	if first.action != take || first.rule.Overdraw {
		one, _ := limiter.(*limit.Limiter) // as all of this package
		demand.Limiter = newOperation(one, first.action, int64(first.cost))
		demand.Each, demand.Permits = true, 1 // in an outage, no limit refuses its hits
	}
	g.limiter = demand.Limiter
	g.answer = s.guard.Decide(limited, demand)
	g.each = g.answer.Each
	if g.each == nil {
		g.each = []rratelimiter.Decision{g.answer.Decision}
	}
	switch g.answer.Result {
	case limit.Acquired, limit.Rejected:
		if len(g.each) != len(policies) {
			return s.failed(g.answer.Err) // no limiter of this package does this
		}
	case limit.Canceled:
		if ctx.Err() == nil {
			return s.failed(context.DeadlineExceeded)
		}
		return status.FromContextError(ctx.Err()).Err()
	default:
		return s.failed(g.answer.Err)
	}
	g.conclude(false)
	return nil
}

// conclude sets the status of each member, and of those equal to it. Equal ones report the permits
// that were left when they had taken theirs, in their order.
func (g *group) conclude(refunded bool) {
	each := g.each
	for _, first := range g.members {
		own := each[:len(first.limits)]
		each = each[len(first.limits):]
		later := first.cost
		for desc := first; desc != nil; desc = desc.equal {
			later -= desc.hits
			switch {
			case refunded && desc.action == take:
				desc.conclude(own, first.cost, first.cost)
			case g.answer.Result == limit.Acquired && desc.action == take:
				desc.conclude(own, first.cost, later)
			default:
				desc.conclude(own, first.cost, 0)
			}
		}
	}
}

func (desc *descriptor) open(client *rratelimiter.Client) gate.Member {
	key, plain := strings.CutPrefix(desc.name, namePrefix+":")
	if r := desc.rule; r.limiters != nil && plain && len(desc.limits) == len(r.limits) {
		return gate.Member{Limiter: r.limiters.Limiter(key), Policies: r.policies}
	}
	policies := policiesOf(desc.limits)
	return gate.Member{Limiter: limit.New(client, desc.name, policies...), Policies: policies}
}

// operation is a limiter that peeks, releases, or takes with overdraw. A group with overdraw has a lane of its own, so
// its permits are never refunded.
type operation struct {
	*limit.Limiter
	inside.Handle // of the Limiter
	action        action
	hits          int64
}

func newOperation(l *limit.Limiter, action action, hits int64) *operation {
	h, _ := inside.Of[inside.Handle](l)
	return &operation{l, h, action, hits}
}

// Try does the operation. The result has the answer of each policy.
func (l *operation) Try(ctx context.Context, ask engine.Ask, result *engine.Result) (err error) {
	var each []rratelimiter.Decision
	switch l.action {
	case release:
		each, err = l.releaseEach(ctx)
	case peek:
		each, err = l.Peek(ctx)
	default:
		each, err = l.overdrawEach(ctx)
	}
	result.Allowed = err == nil && !slices.ContainsFunc(each, isDenied)
	for _, one := range each {
		result.Parts = append(result.Parts, engine.Decision(one))
	}
	return err
}

func isDenied(one rratelimiter.Decision) bool { return !one.Allowed }

// releaseEach releases the hits, of which each counts as granted.
func (l *operation) releaseEach(ctx context.Context) ([]rratelimiter.Decision, error) {
	if err := l.Release(ctx, l.hits); err != nil {
		return nil, err
	}
	each, err := l.Peek(ctx)
	for i := range each {
		each[i].Allowed = true
	}
	return each, err
}

// overdrawEach takes the hits, also those that are not free. A policy that did not have them free denies
// them.
func (l *operation) overdrawEach(ctx context.Context) ([]rratelimiter.Decision, error) {
	each, err := l.TakeEach(ctx, l.hits)
	if err != nil && !errors.Is(err, rratelimiter.ErrPermitsExceedRate) {
		return nil, err
	}
	if err == nil && !slices.ContainsFunc(each, isDenied) {
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

// lane is groups that are called one after another. Other lanes are called at the same time. The
// groups of a joint lane take the permits of the request together, or none.
type lane struct {
	groups  []*group
	slot    string
	joint   bool
	follows bool // another lane has one of its limiters too, and is called before
	err     error
}

// assign adds a descriptor to the joint lane of its slot, or to a lane of its own.
func assign(lanes []*lane, desc *descriptor, slot string) []*lane {
	var own *lane
	follows := false
	for _, l := range lanes {
		if desc.joint && l.joint && l.slot == slot {
			own = l
		} else if l.has(desc.name) {
			follows = true
		}
	}
	if own == nil {
		own = &lane{slot: slot, joint: desc.joint}
		lanes = append(lanes, own)
	}
	own.follows = own.follows || follows
	own.add(desc)
	return lanes
}

func (l *lane) has(name string) bool {
	return slices.ContainsFunc(l.groups, func(g *group) bool { return g.has(name) })
}

// add adds a descriptor to a group that it can join, or to a new one.
func (l *lane) add(desc *descriptor) {
	if slices.ContainsFunc(l.groups, func(g *group) bool { return g.add(desc) }) {
		return
	}
	g := new(group)
	g.add(desc)
	l.groups = append(l.groups, g)
}

// callAll calls the lanes, at the same time if none follows another.
func (s *Server) callAll(ctx context.Context, lanes []*lane) error {
	end := time.Now().Add(s.config.Deadline)
	if len(lanes) == 1 { // as for most requests
		return lanes[0].call(ctx, end, s)
	}
	var calls sync.WaitGroup
	for _, l := range lanes {
		if !l.follows {
			calls.Go(func() { l.err = l.call(ctx, end, s) })
		}
	}
	calls.Wait()
	for _, l := range lanes {
		if l.follows {
			l.err = l.call(ctx, end, s)
		}
		if l.err != nil {
			return l.err
		}
	}
	return nil
}

// call calls the groups until one denies the request or fails. Then the groups before it return what
// they have taken. The cheapest group is first, so that a request that it denies takes nothing of the
// others. Calls that follow others have until the end.
func (l *lane) call(ctx context.Context, end time.Time, s *Server) error {
	slices.SortStableFunc(l.groups, func(a, b *group) int { return cmp.Compare(a.cost(), b.cost()) })
	for i, g := range l.groups {
		until := end
		if i == 0 && !l.follows {
			until = time.Time{} // the deadline of the guard suffices
		}
		err := g.call(ctx, until, s)
		switch before := l.groups[:i]; {
		case err != nil && i > 0:
			go s.refund(ctx, before)
			return err
		case err != nil:
			return err
		case l.joint && g.denies():
			s.refund(ctx, before)
			for _, granted := range before {
				granted.conclude(true)
			}
			return nil
		}
	}
	return nil
}

// refund returns the permits of groups. Those that cannot be returned are lost.
func (s *Server) refund(ctx context.Context, granted []*group) {
	for _, g := range granted {
		if g.members[0].action == take {
			_ = s.guard.Settle(ctx, g.limiter, g.answer, 0)
		}
	}
}

// denies reports whether a descriptor of the group is over its limit.
func (g *group) denies() bool {
	return slices.ContainsFunc(g.members, func(desc *descriptor) bool {
		return desc.status.GetCode() == ratelimit.RateLimitResponse_OVER_LIMIT
	})
}
