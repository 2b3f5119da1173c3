// Package bubble runs a test with a Redis in memory inside a synctest bubble: time stands still while a goroutine runs,
// and passes at once while all of them wait.
package bubble

import (
	"context"
	"crypto/tls"
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
)

// Bubble is a test, its Redis, and a connection to that.
type Bubble struct {
	*testing.T
	Redis *miniredis.Miniredis
	Conn  rueidis.Client

	Scripts atomic.Int64 // EVALSHA calls so far
	Sent    atomic.Int64 // writes to the connection so far: round trips
	Latency atomic.Int64 // of every command, a time.Duration
}

// Run runs a test with a Redis in memory and a clock of its own, and fails where a goroutine is left.
func Run(t *testing.T, test func(b *Bubble)) {
	synctest.Test(t, func(t *testing.T) {
		b := &Bubble{T: t, Redis: miniredis.NewMiniRedis()}
		b.Redis.ClockTTL(true)
		b.Conn = b.dial()
		// Tests need the hook before the first call, and the server exists from the first connection on.
		b.Redis.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
			b.count(command)
			return false
		})
		b.Cleanup(func() {
			b.Latency.Store(0)
			b.Conn.Close()
			b.Redis.Close()
			Pass(time.Minute) // what was on its way arrives
		})
		test(b)
	})
}

func (b *Bubble) count(command string) {
	if strings.EqualFold(command, "EVALSHA") {
		b.Scripts.Add(1)
	}
}

func (b *Bubble) dial() rueidis.Client {
	conn, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{"in-memory"},
		ForceSingleClient: true,
		DisableCache:      true,
		PipelineMultiplex: -1, // one connection, so that calls in flight arrive in order
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			conn, err := b.Redis.Dial()
			return slowConn{conn, b}, err
		},
	})
	require.NoError(b, err)
	return conn
}

// slowConn is a connection on which everything that is sent takes a while.
type slowConn struct {
	net.Conn
	bubble *Bubble
}

func (c slowConn) Write(p []byte) (int, error) {
	c.bubble.Sent.Add(1)
	Pass(time.Duration(c.bubble.Latency.Load()))
	return c.Conn.Write(p)
}

// Pass lets time pass on the clock of the bubble, which takes none.
func Pass(d time.Duration) { time.Sleep(d) }
