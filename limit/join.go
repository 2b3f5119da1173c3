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

// ErrNotChargeable is returned by Charge of a Join with a *rratelimiter.Limiter, which cannot owe
// permits.
var ErrNotChargeable = errors.New("rratelimiter: a limiter of Redisson's layout cannot be charged")

// Joinable is a *[Limiter] or a *[rratelimiter.Limiter]. [Join] accepts no other type.
type Joinable interface {
	Name() string
	Take(ctx context.Context, permits int64) (rratelimiter.Decision, error)
}

// Join returns a limiter that takes the permits of a request from all limiters or, if one has not
// enough, from none. One script call decides. The limiters must be of one Client. Java programs may
// use a *rratelimiter.Limiter among them.
//
// On a Redis Cluster all names need the same hash tag, as "{tenant:7}:second" and "{tenant:7}:day"
// have; else calls fail with [rratelimiter.ErrCrossSlot]. Other errors:
// [rratelimiter.ErrInvalidRate] for no limiters, more than 10 policies in all, or one limiter
// twice; [rratelimiter.ErrInvalidOption] for limiters of several Clients, or a Joinable of another
// type; and the error of an invalid member.
//
// Release and Reset act on one member after another. If Redis fails meanwhile, they may act on some
// members only.
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
