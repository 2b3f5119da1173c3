package limit

import (
	"context"
	"time"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

func init() {
	inside.NodeOf = func(limiter any) (*engine.Engine, string, bool) {
		client, key, ok := nodeOf(limiter)
		return client.Engine, key, ok
	}
	inside.Probe = func(ctx context.Context, limiter any) error {
		client, key, ok := nodeOf(limiter)
		if !ok {
			return rratelimiter.ErrNoClient
		}
		// A call that only reads would succeed where Redis refuses writes.
		described, _ := policy.Of(probePolicy)
		members := []member{{policy: probePolicy, described: &described, settings: "probe"}}
		l := planOf(client, members).limiter("probe", keyPrefix{"{", redisx.Tag(key), "}:probe:"})
		var result engine.Result
		return l.calls.TryUnobserved(ctx, engine.Ask{Permits: 1}, &result)
	}
}

// probePolicy grants all probes, and has no state that outlives them.
var probePolicy = FixedWindow{Permits: maxPermits, Interval: time.Millisecond}

func nodeOf(limiter any) (client inside.Client, key string, ok bool) {
	switch l := limiter.(type) {
	case *Limiter:
		if l == nil || l.err != nil || len(l.wire.keys) == 0 {
			return client, "", false
		}
		return l.wire.plan.client, l.wire.keys[0], true
	case *rratelimiter.Limiter:
		opened, err := inside.OpenLimiter(l)
		if err != nil {
			return client, "", false
		}
		return opened.Client, opened.Keys[0], true
	}
	return client, "", false
}
