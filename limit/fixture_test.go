package limit

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// clocked is a Redis in memory and a clock, which tests set.
type clocked struct {
	testing.TB
	redis   *miniredis.Miniredis
	client  *rratelimiter.Client
	now     int64        // Unix microseconds
	clock   atomic.Int64 // now, for counts of drift in the background
	server  int64        // the clock of Redis, Unix microseconds
	back    bool         // the clock may go back: the server's stands still then, so that nothing expires
	windows bool         // with back: the server's clock goes on, since it alone ends windows
	millis  bool         // time passes in whole milliseconds, as windows end
	lives   bool         // in a synctest bubble, whose clock now is: prefetches end by it
}

// begin is a time that is no multiple of any unit.
const begin = 1_763_740_123_456_789

func newClocked(t testing.TB, opts ...rratelimiter.Option) *clocked {
	f := &clocked{TB: t, redis: miniredis.RunT(t)}
	f.set(begin)
	clock := rratelimiter.WithClock(func() time.Time { return time.UnixMicro(f.clock.Load()) })
	f.client = rratelimiter.New(f.connect(), append(opts, clock)...)
	return f
}

// clockedLimiter returns a limiter on a clocked Redis.
func clockedLimiter(t testing.TB, policies ...Policy) (*clocked, *Limiter) {
	f := newClocked(t)
	return f, New(f.client, "name", policies...)
}

func (f *clocked) connect() rueidis.Client {
	conn, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{f.redis.Addr()}, DisableCache: true,
		ForceSingleClient: true})
	require.NoError(f, err)
	f.Cleanup(conn.Close)
	return conn
}

// set sets the clocks of the client and of Redis.
func (f *clocked) set(now int64) {
	f.setClock(now)
	f.server = now
	if !f.lives {
		f.redis.SetTime(time.UnixMicro(now))
	}
}

// setClock sets the clock of the client.
func (f *clocked) setClock(now int64) {
	f.now = now
	f.clock.Store(now)
}

// isWindow reports whether the clock of Redis ends the windows of a policy, in whole milliseconds.
func isWindow(p Policy) bool {
	d, _ := policy.Of(alone(p))
	return d.Refill == policy.Together
}

// inMillis has time pass in whole milliseconds for a window, if these options let a Client answer from memory: by
// it, less than a millisecond may be left.
func (f *clocked) inMillis(p Policy, opts []rratelimiter.Option) {
	if isWindow(p) && opts != nil {
		f.millis = true
		f.set(f.now - f.now%1000)
	}
}

func (f *clocked) advance(d time.Duration) {
	if f.millis {
		d = d.Truncate(time.Millisecond)
	}
	if f.lives {
		time.Sleep(d)
		synctest.Wait() // what has ended has been returned
		f.set(time.Now().UnixMicro())
		return
	}
	f.setClock(f.now + d.Microseconds())
	if !f.back || f.windows && d > 0 {
		f.pass(d)
	}
}

// pass advances the clock of Redis.
func (f *clocked) pass(d time.Duration) {
	f.server += d.Microseconds()
	f.redis.SetTime(time.UnixMicro(f.server))
	f.redis.FastForward(d)
}

// fixture is a Redis in memory inside a synctest.Test, and a Client on it.
type fixture struct {
	*redistest.Fixture
	client *rratelimiter.Client
}

func withRedis(t *testing.T, test func(t *testing.T, f *fixture)) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) { test(t, &fixture{f, rratelimiter.New(f.Conn)}) })
}

func runWithRedis(t *testing.T, name string, test func(t *testing.T, f *fixture)) {
	t.Run(name, func(t *testing.T) { withRedis(t, test) })
}

// eachPolicy runs a subtest with a Redis in memory for each policy.
func eachPolicy(t *testing.T, policies []Policy, test func(t *testing.T, f *fixture, p Policy)) {
	for _, p := range policies {
		runWithRedis(t, fmt.Sprintf("%T", p), func(t *testing.T, f *fixture) { test(t, f, p) })
	}
}

// mostOf returns the permits that a policy can grant at once.
func mostOf(p Policy) int64 {
	d, _ := policy.Of(alone(p))
	return d.Most
}

// takingCalls are the calls that take a number of permits, or none.
var takingCalls = map[string]func(ctx context.Context, l *Limiter, permits int64) error{
	"TryAcquire": func(ctx context.Context, l *Limiter, n int64) error { return redistest.Err(l.TryAcquire(ctx, n)) },
	"Take":       func(ctx context.Context, l *Limiter, n int64) error { return redistest.Err(l.Take(ctx, n)) },
	"TakeEach":   func(ctx context.Context, l *Limiter, n int64) error { return redistest.Err(l.TakeEach(ctx, n)) },
	"TryAcquireWithin": func(ctx context.Context, l *Limiter, n int64) error {
		return redistest.Err(l.TryAcquireWithin(ctx, n, time.Minute))
	},
	"TakeWithin": func(ctx context.Context, l *Limiter, n int64) error {
		return redistest.Err(l.TakeWithin(ctx, n, time.Minute))
	},
	"Acquire": func(ctx context.Context, l *Limiter, n int64) error { return l.Acquire(ctx, n) },
	"TakeUpTo": func(ctx context.Context, l *Limiter, n int64) error {
		_, _, err := l.TakeUpTo(ctx, n)
		return err
	},
}

// remainingOf, tryWithin and takeUpTo require that the call does not fail.
func remainingOf(t testing.TB, limiters ...*Limiter) (all []int64) {
	t.Helper()
	for _, l := range limiters {
		for _, d := range redistest.Peek(t, l) {
			all = append(all, d.Remaining)
		}
	}
	return all
}

func tryWithin(t testing.TB, l *Limiter, permits int64, timeout time.Duration) bool {
	t.Helper()
	ok, err := l.TryAcquireWithin(t.Context(), permits, timeout)
	require.NoError(t, err)
	return ok
}

func takeUpTo(t testing.TB, l *Limiter, permits int64) (int64, rratelimiter.Decision) {
	t.Helper()
	granted, d, err := l.TakeUpTo(t.Context(), permits)
	require.NoError(t, err)
	return granted, d
}

// fillShared adds so many grants of a permit to a limiter of Redisson's layout, a millisecond apart, in
// place of as many calls.
func (f *fixture) fillShared(name string, grants int) {
	f.Helper()
	synctest.Wait() // a count of drift beside it would find a grant without its permit
	for range grants {
		member := fmt.Sprintf("\x10%016x\x01\x00\x00\x00", rand.Uint64())
		f.RequireNoError(f.Redis.ZAdd(name+":permits", float64(time.Now().UnixMilli()), member))
		f.RequireNoError(f.Redis.Incr(name+":value", -1))
		time.Sleep(time.Millisecond)
	}
}

// slowReplies returns a connection on which replies take a while, a time.Duration.
func (f *fixture) slowReplies() (conn rueidis.Client, latency *atomic.Int64) {
	latency = new(atomic.Int64)
	conn, err := memredis.ConnectThrough(f.Redis, func(conn net.Conn) net.Conn { return slowReader{conn, latency} })
	require.NoError(f, err)
	f.Cleanup(func() {
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
	time.Sleep(time.Duration(c.latency.Load()))
	return n, err
}
