package rls

import (
	"cmp"
	"context"
	"slices"
	"sync"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// lane is groups that are called one after another. Other lanes are called at the same time. The
// groups of a joint lane take the permits of the request together, or none.
type lane struct {
	groups  []*group
	slot    string
	joint   bool
	follows bool // another lane has one of its limiters too, and is called before
	err     error
}

// place adds a descriptor to the joint lane of its slot, or to a lane of its own.
func place(lanes []*lane, desc *descriptor, slot string) []*lane {
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

// callAll calls the lanes, at the same time if none follows another. Calls that follow others have
// the rest of the deadline.
func (s *Server) callAll(ctx context.Context, lanes []*lane) error {
	if len(lanes) == 1 && len(lanes[0].groups) == 1 { // as for most requests
		return lanes[0].call(ctx, ctx, ctx, s)
	}
	bounded, cancel := context.WithTimeout(ctx, s.config.Deadline)
	defer cancel()
	var calls sync.WaitGroup
	for _, l := range lanes {
		if !l.follows {
			calls.Go(func() { l.err = l.call(ctx, ctx, bounded, s) })
		}
	}
	calls.Wait()
	for _, l := range lanes {
		if l.follows {
			l.err = l.call(ctx, bounded, bounded, s)
		}
		if l.err != nil {
			return l.err
		}
	}
	return nil
}

// call calls the groups until one denies the request or fails. Then the groups before it return what
// they have taken. The cheapest group is first, so that a request that it denies takes nothing of the
// others.
func (l *lane) call(ctx, first, others context.Context, s *Server) error {
	slices.SortStableFunc(l.groups, func(a, b *group) int { return cmp.Compare(a.cost(), b.cost()) })
	limited := first
	for i, g := range l.groups {
		err := g.call(limited, s)
		if status.Code(err) == codes.DeadlineExceeded && ctx.Err() == nil {
			err = s.failed(context.DeadlineExceeded)
		}
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
		limited = others
	}
	return nil
}

// refund returns the permits of groups. Those that cannot be returned are lost.
func (s *Server) refund(ctx context.Context, granted []*group) {
	for _, g := range granted {
		if g.members[0].action == take {
			_ = s.guard.Settle(ctx, g.request, g.answer, 0)
		}
	}
}

// denies reports whether a descriptor of the group is over its limit.
func (g *group) denies() bool {
	return slices.ContainsFunc(g.members, func(desc *descriptor) bool {
		return desc.status.GetCode() == ratelimit.RateLimitResponse_OVER_LIMIT
	})
}
