package ruleset

import (
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard"
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
	window := limit.FixedWindow{Permits: 1, Interval: time.Second}
	return guard.CheckLimiter(limit.New(offlineCluster, domain+":rule", window))
}

func checkRate(rate rratelimiter.Rate) error {
	return guard.CheckLimiter(offline.Limiter("rule", rratelimiter.InitialRate(rate)))
}
