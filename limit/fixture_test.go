package limit

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/memredis"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

const ms = time.Millisecond

// bench is a Redis in memory and a clock, which tests set.
type bench struct {
	testing.TB
	redis  *miniredis.Miniredis
	client *rratelimiter.Client
	now    int64        // Unix microseconds
	clock  atomic.Int64 // now, for counts of drift in the background
	back   bool         // the clock may go back: the server's stands still then, so that nothing expires
	lives  bool         // in a synctest bubble, whose clock now is: leases end by it
}

// begin is a time that is no multiple of any unit.
const begin = 1_763_740_123_456_789

func newBench(t testing.TB, opts ...rratelimiter.Option) *bench {
	b := &bench{TB: t, redis: miniredis.RunT(t)}
	b.set(begin)
	clock := rratelimiter.WithClock(func() time.Time { return time.UnixMicro(b.clock.Load()) })
	b.client = rratelimiter.New(b.connect(), append(opts, clock)...)
	return b
}

// connect opens a connection to the Redis.
func (b *bench) connect() rueidis.Client {
	conn, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{b.redis.Addr()}, DisableCache: true,
		ForceSingleClient: true})
	require.NoError(b, err)
	b.Cleanup(conn.Close)
	return conn
}

// set sets the clock.
func (b *bench) set(now int64) {
	b.now = now
	b.clock.Store(now)
}

// pass lets time pass.
func (b *bench) pass(d time.Duration) {
	if b.lives {
		redistest.Pass(d)
		synctest.Wait() // what has ended has been returned
		b.set(time.Now().UnixMicro())
		return
	}
	b.set(b.now + d.Microseconds())
	if !b.back {
		b.redis.FastForward(d)
	}
}

// fixture is a Redis in memory inside a synctest.Test, and a Client on it.
type fixture struct {
	*redistest.Fixture
	client *rratelimiter.Client
}

func withRedis(t *testing.T, test func(b *fixture)) {
	redistest.Run(t, func(b *redistest.Fixture) { test(&fixture{b, rratelimiter.New(b.Conn)}) })
}

// runWithRedis runs a subtest with a Redis in memory.
func runWithRedis(t *testing.T, name string, test func(b *fixture)) {
	t.Run(name, func(t *testing.T) { withRedis(t, test) })
}

// errOf returns the error of a call.
func errOf(_ any, err error) error { return err }

// must makes a call for permits. It and the functions that follow require that their calls do not
// fail.
func must[A any](t testing.TB, call func(ctx context.Context, permits int64) (A, error), permits int64) A {
	t.Helper()
	answer, err := call(t.Context(), permits)
	require.NoError(t, err)
	return answer
}

func mustPeek(t testing.TB, l *Limiter) []rratelimiter.Decision {
	t.Helper()
	all, err := l.Peek(t.Context())
	require.NoError(t, err)
	return all
}

func mustWait(t testing.TB, l *Limiter, permits int64, timeout time.Duration) bool {
	t.Helper()
	ok, err := l.TryAcquireWithin(t.Context(), permits, timeout)
	require.NoError(t, err)
	return ok
}

func mustTakeUpTo(t testing.TB, l *Limiter, permits int64) (int64, rratelimiter.Decision) {
	t.Helper()
	granted, d, err := l.TakeUpTo(t.Context(), permits)
	require.NoError(t, err)
	return granted, d
}

// slowReplies returns a connection on which replies take a while, a time.Duration.
func (b *fixture) slowReplies() (conn rueidis.Client, latency *atomic.Int64) {
	latency = new(atomic.Int64)
	conn, err := memredis.ConnectThrough(b.Redis, func(conn net.Conn) net.Conn { return slowReader{conn, latency} })
	require.NoError(b, err)
	b.Cleanup(func() {
		latency.Store(0)
		conn.Close()
	})
	return conn, latency
}

type slowReader struct {
	net.Conn
	latency *atomic.Int64
}

func (c slowReader) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	redistest.Pass(time.Duration(c.latency.Load()))
	return n, err
}
