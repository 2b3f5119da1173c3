// Package redistest runs a test with a Redis in memory and a fake clock (testing/synctest).
// Time stands still while a goroutine runs, and passes at once while all of them wait.
package redistest

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/memredis"
)

// Fixture is a test, its Redis and a connection to that.
type Fixture struct {
	*testing.T
	Redis *miniredis.Miniredis
	Conn  rueidis.Client

	Scripts atomic.Int64 // EVALSHA calls so far
	Sent    atomic.Int64 // writes to the connection so far: round trips
	Latency atomic.Int64 // of every command, a time.Duration
}

// Run runs a test with a Redis in memory and a fake clock. The test fails if a goroutine is left.
func Run(t *testing.T, test func(t *testing.T, f *Fixture)) {
	synctest.Test(t, func(t *testing.T) {
		f := &Fixture{T: t, Redis: miniredis.NewMiniRedis()}
		f.Redis.ClockTTL(true)
		f.Conn = f.dial()
		// Tests need the hook before the first call, and the server exists from the first
		// connection on.
		f.Redis.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
			f.count(command)
			return false
		})
		t.Cleanup(func() {
			f.Latency.Store(0)
			time.Sleep(time.Minute) // calls end: rueidis may dial again for one that fails while it closes
			f.Conn.Close()
			f.Redis.Close()
			time.Sleep(time.Minute) // what was on its way arrives
		})
		test(t, f)
	})
}

func (f *Fixture) count(command string) {
	if strings.EqualFold(command, "EVALSHA") {
		f.Scripts.Add(1)
	}
}

func (f *Fixture) dial() rueidis.Client {
	conn, err := memredis.ConnectThrough(f.Redis, func(conn net.Conn) net.Conn { return slowConn{conn, f} })
	require.NoError(f, err)
	return conn
}

// slowConn is a connection on which everything that is sent takes a while.
type slowConn struct {
	net.Conn
	fixture *Fixture
}

func (c slowConn) Write(p []byte) (int, error) {
	c.fixture.Sent.Add(1)
	time.Sleep(time.Duration(c.fixture.Latency.Load()))
	return c.Conn.Write(p)
}
