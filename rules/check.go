package rules

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
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

// areApart reports whether no two limits would count in the same key.
func (l *limits) areApart() bool {
	if len(l.policies) > 0 && limit.Validate(l.policies...) != nil {
		return false
	}
	if len(l.redisson) < 2 {
		return true
	}
	var members []limit.Joinable
	for _, r := range l.redisson {
		members = append(members, nowhere.Limiter(r.name))
	}
	return ended(limit.Join(members...).Take(over, 1)) == nil
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
