package rules

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Clients that have no Redis: with them limiters say what is wrong with their policies and names, and cannot do more.
var (
	nowhere        = rratelimiter.New(noRedis{mode: rueidis.ClientModeStandalone})
	nowhereCluster = rratelimiter.New(noRedis{mode: rueidis.ClientModeCluster})
)

type noRedis struct {
	rueidis.Client
	mode rueidis.ClientMode
}

func (c noRedis) Mode() rueidis.ClientMode { return c.mode }

// checkName says what is wrong with what names begin with.
func checkName(domain string) error {
	return ended(limit.New(nowhereCluster, domain+":rule", limit.FixedWindow{Permits: 1, Interval: time.Second}).Take(over, 1))
}

// over is a context that has ended: a call with it asks nothing of Redis, and says what is wrong before it says that.
var over = func() context.Context {
	ctx, end := context.WithCancel(context.Background())
	end()
	return ctx
}()

// areApart says whether no two of some limits would count in the same key. Permits make no difference to that, so that what was looked
// at once, of any permits, need not be looked at again.
func (d *decoder) areApart(l *limits) bool {
	if len(l.redisson) <= 1 {
		seen := true
		for i, p := range l.policies {
			for _, other := range l.policies[:i] {
				pair := [2]limit.Policy{guard.Kind(other), guard.Kind(p)}
				if seen = seen && d.apart[pair]; !seen {
					break
				}
			}
		}
		if seen {
			return true
		}
	}
	var members []limit.Joinable
	if len(l.policies) > 0 {
		members = append(members, limit.New(nowhere, "rule", l.policies...))
	}
	for _, r := range l.redisson {
		members = append(members, nowhere.Limiter(r.name))
	}
	if ended(limit.Join(members...).Take(over, 1)) != nil {
		return false
	}
	for i, p := range l.policies {
		for _, other := range l.policies[:i] {
			d.apart[[2]limit.Policy{guard.Kind(other), guard.Kind(p)}] = true
		}
	}
	return true
}

func checkRate(rate rratelimiter.Rate) error {
	return ended(nowhere.Limiter("rule").TrySetRate(over, rate))
}

// ended is the error of a call that had to fail for its context alone.
func ended[T any](_ T, err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
