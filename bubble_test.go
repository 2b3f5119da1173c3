package rratelimiter

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

// bubble is a Redis in memory inside a synctest bubble: time stands still while anything works, and passes at once
// while everything waits.
type bubble struct {
	*testing.T
	redis *miniredis.Miniredis
	conn  rueidis.Client

	scripts atomic.Int64 // EVALSHA calls so far
	sent    atomic.Int64 // what went to Redis in one piece so far: round trips
	latency atomic.Int64 // of every command, a time.Duration
}

// inBubble runs a test with a Redis in memory and a clock of its own, and fails where a goroutine is left.
func inBubble(t *testing.T, test func(b *bubble)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{T: t, redis: miniredis.NewMiniRedis()}
		b.redis.ClockTTL(true)
		b.conn = b.dial()
		// Tests need the hook before the first call, and the server exists from the first connection on.
		b.redis.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
			if strings.EqualFold(command, "EVALSHA") {
				b.scripts.Add(1)
			}
			return false
		})
		b.Cleanup(func() {
			b.latency.Store(0)
			b.conn.Close()
			b.redis.Close()
			pass(time.Minute) // what was on its way arrives
		})
		// The acquire script is loaded, so that each call is one round trip.
		_, err := New(b.conn).Limiter("none").TryAcquire(b.Context(), 1)
		require.ErrorIs(b, err, ErrNotInitialized)
		test(b)
	})
}

func (b *bubble) dial() rueidis.Client {
	conn, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{"in-memory"},
		ForceSingleClient: true,
		DisableCache:      true,
		PipelineMultiplex: -1, // one connection, so that calls in flight arrive in order
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			conn, err := b.redis.Dial()
			return slowConn{conn, b}, err
		},
	})
	require.NoError(b, err)
	return conn
}

// slowConn is a connection on which everything that is sent takes a while.
type slowConn struct {
	net.Conn
	bubble *bubble
}

func (c slowConn) Write(p []byte) (int, error) {
	c.bubble.sent.Add(1)
	pass(time.Duration(c.bubble.latency.Load()))
	return c.Conn.Write(p)
}

// limiter opens a limiter and sets its rate.
func (b *bubble) limiter(rate Rate, opts ...Option) *Limiter {
	l := New(b.conn, opts...).Limiter("limiter")
	require.NoError(b, l.SetRate(b.Context(), rate))
	return l
}

// take takes permits that must be free.
func (b *bubble) take(l *Limiter, permits int64) {
	b.Helper()
	ok, err := l.TryAcquire(b.Context(), permits)
	require.NoError(b, err)
	require.True(b, ok, "%d permits should be free", permits)
}

// full makes sure that permits are not to be had.
func (b *bubble) full(l *Limiter, permits int64) {
	b.Helper()
	ok, err := l.TryAcquire(b.Context(), permits)
	require.NoError(b, err)
	require.False(b, ok, "%d permits should not be free", permits)
}

func (b *bubble) free(l *Limiter, want int64) {
	b.Helper()
	got, err := l.AvailablePermits(b.Context())
	require.NoError(b, err)
	require.Equal(b, want, got, "free permits")
}

// pass lets time pass on the clock of the bubble, which takes none.
func pass(d time.Duration) { time.Sleep(d) }
