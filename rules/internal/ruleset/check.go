package ruleset

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Clients without Redis, whose limiters only validate policies and names.
var (
	offline        = rratelimiter.New(noRedis{mode: rueidis.ClientModeStandalone})
	offlineCluster = rratelimiter.New(noRedis{mode: rueidis.ClientModeCluster})
)

type noRedis struct {
	rueidis.Client
	mode rueidis.ClientMode
}

func (c noRedis) Mode() rueidis.ClientMode { return c.mode }

// checkName returns an error if a domain is not valid in names.
func checkName(domain string) error {
	return argumentError(limit.New(offlineCluster, domain+":rule",
		limit.FixedWindow{Permits: 1, Interval: time.Second}).Take(ended, 1))
}

func checkRate(rate rratelimiter.Rate) error {
	return argumentError(offline.Limiter("rule").TrySetRate(ended, rate))
}

// argumentError returns the error of a call with an ended context, nil if only the context made it
// fail.
func argumentError[T any](_ T, err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
