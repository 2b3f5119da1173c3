// Package peers compares the policies of package limit with the libraries that they come from, on
// injected clocks.
package peers

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// steps is how many calls are compared for each policy: POLICY_STEPS, by default 1,000.
var steps = int(env.Number("POLICY_STEPS", 1000))

// bench is a Redis server and a clock that the test turns. The clocks of the server and of the
// process run by themselves: the tests have times of minutes, so that they do not matter, and keys
// do not expire.
type bench struct {
	*testing.T
	conn   rueidis.Client
	client *rratelimiter.Client
	now    time.Time
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, now: time.UnixMicro(1_763_740_123_456_789)}
	server := servers.Single(t)
	conn := server.Client(t)
	b.conn, b.client = conn, rratelimiter.New(conn, rratelimiter.WithClock(func() time.Time { return b.now }))
	return b
}

// persist keeps a key beyond its time, which passes on another clock.
func (b *bench) persist(key string) {
	require.NoError(b, b.conn.Do(context.Background(), b.conn.B().Persist().Key(key).Build()).Error())
}
