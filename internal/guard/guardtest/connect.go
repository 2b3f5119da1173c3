package guardtest

import (
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// Connect returns a Client of a Redis in memory, on a socket and on the clock of the machine.
func Connect(tb testing.TB, opts ...rratelimiter.Option) (*rratelimiter.Client, *miniredis.Miniredis) {
	tb.Helper()
	redis := miniredis.RunT(tb)
	redis.ClockTTL(true)
	conn, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{redis.Addr()}, ForceSingleClient: true, DisableCache: true,
		Dialer: net.Dialer{KeepAlive: -1}, // no pings, which would count as commands
	})
	require.NoError(tb, err)
	tb.Cleanup(conn.Close)
	return rratelimiter.New(conn, opts...), redis
}

// Example returns a Client of redistest.Example. Its clock stands still, so that what an Example
// prints does not depend on the machine.
func Example() *rratelimiter.Client {
	now := time.Now()
	return rratelimiter.New(redistest.Example(), rratelimiter.WithClock(func() time.Time { return now }))
}
