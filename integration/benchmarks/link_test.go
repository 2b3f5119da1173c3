package benchmarks

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
)

const linkDelay = 2 * time.Millisecond

// overLink is the load over a slow link.
func (l load) overLink(b testing.TB) load { return l.through(b, shared(b).addr) }

// through puts a proxy before a server, which delays each direction by half of the link. ping is the
// median of some.
func (l load) through(b testing.TB, addr string) load {
	p := proxy.Start(b, addr)
	for _, direction := range []string{"upstream", "downstream"} {
		p.Disturb(b, "latency", direction, fmt.Sprintf(`"latency": %d`, linkDelay.Milliseconds()/2))
	}
	redis := dial(b, p.Listen)
	var took []time.Duration
	for range 50 {
		start := time.Now()
		require.NoError(b, redis.Do(context.Background(), redis.B().Ping().Build()).Error())
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	l.addr, l.ping = p.Listen, took[len(took)/2]
	return l
}
