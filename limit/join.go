package limit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/inside"
)

// ErrNotChargeable says that a Join has a *rratelimiter.Limiter among its members, which cannot owe permits.
var ErrNotChargeable = errors.New("rratelimiter: a limiter of Redisson's layout cannot be charged")

// Joinable is what [Join] joins: a *[Limiter] or a *[rratelimiter.Limiter], and nothing else.
type Joinable interface {
	Name() string
	Take(ctx context.Context, permits int64) (rratelimiter.Decision, error)
}

// Join makes one limiter of several, of one Client: a request takes its permits of all of them, or, where one has not enough,
// of none. One script call decides. A *rratelimiter.Limiter that Java programs use takes part without their noticing.
//
// On a Redis Cluster all names need the same hash tag, as "{tenant:7}:second" and "{tenant:7}:day" have, else calls
// fail with [rratelimiter.ErrCrossSlot]. What else is wrong shows at the first call too: [rratelimiter.ErrInvalidRate] for no
// limiters, more policies in all than 10, or one limiter twice; [rratelimiter.ErrInvalidOption] for limiters of several
// Clients, or a Joinable of another type; and what is wrong with a member.
//
// Release and Reset act on every member, one after another; so where Redis fails meanwhile, some may not have followed.
func Join(limiters ...Joinable) *Limiter {
	l := new(Limiter)
	names := make([]string, len(limiters))
	for i, member := range limiters {
		if l.err = l.join(member); l.err != nil {
			return l
		}
		names[i] = member.Name()
	}
	l.open(strings.Join(names, " + "), nil)
	return l
}

// join adds the members of a limiter.
func (l *Limiter) join(joinable Joinable) error {
	var client inside.Client
	var members []member
	switch limiter := joinable.(type) {
	case *Limiter:
		if limiter == nil || limiter.client.Engine == nil && limiter.err == nil {
			return fmt.Errorf("%w: open a Limiter with New or Join", rratelimiter.ErrNoClient)
		}
		if limiter.err != nil {
			return limiter.err
		}
		client, members = limiter.client, limiter.members
	case *rratelimiter.Limiter:
		opened, err := inside.OpenLimiter(limiter)
		if err != nil {
			return err
		}
		client = opened.Client
		members = []member{{redisson{&opened, limiter.Name()}, limiter.Name(), opened.Keys}}
	default:
		return fmt.Errorf("%w: a %T cannot be joined, give *limit.Limiter and *rratelimiter.Limiter", rratelimiter.ErrInvalidOption, joinable)
	}
	if l.client.Engine != nil && l.client.Engine != client.Engine {
		return fmt.Errorf("%w: %q is of another Client than the limiters before it", rratelimiter.ErrInvalidOption, joinable.Name())
	}
	l.client, l.members = client, slices.Concat(l.members, members)
	return nil
}
