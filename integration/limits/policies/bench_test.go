// Package policies tests package limit on real servers: replies, lifetimes and sizes of keys, and a
// cluster.
package policies

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// bench is a Redis server and a clock that the test turns. The clock of the server runs by itself.
type bench struct {
	conn   rueidis.Client
	client *rratelimiter.Client
	now    time.Time
}

func newBench(t *testing.T) *bench {
	b := &bench{now: time.UnixMicro(1_763_740_123_456_789)}
	server := servers.Single(t)
	conn := server.Client(t)
	b.conn, b.client = conn, rratelimiter.New(conn, rratelimiter.WithClock(func() time.Time { return b.now }))
	return b
}
