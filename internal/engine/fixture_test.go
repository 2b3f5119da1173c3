package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/inside"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// The tests of this package call the engine through Redisson's limiter.

const second = time.Second

// requestsArg is the index of the requests in the arguments of the acquire script.
const requestsArg = 7

// fixture is a Redis in memory inside a synctest.Test, and the Client of the last limiter.
type fixture struct {
	*redistest.Fixture
	client *rratelimiter.Client
}

// withRedis runs a test with a Redis in memory and a clock of its own. It fails if a goroutine is
// left.
func withRedis(t *testing.T, test func(b *fixture)) {
	redistest.Run(t, func(m *redistest.Fixture) {
		// The scripts that take permits are loaded, so that each call is one round trip.
		none := rratelimiter.New(m.Conn).Limiter("none")
		_, err := none.TryAcquire(m.Context(), 1)
		require.ErrorIs(m, err, rratelimiter.ErrNotInitialized)
		_, err = none.Take(m.Context(), 1)
		require.ErrorIs(m, err, rratelimiter.ErrNotInitialized)
		test(&fixture{Fixture: m})
	})
}

func runWithRedis(t *testing.T, name string, test func(b *fixture)) {
	t.Run(name, func(t *testing.T) { withRedis(t, test) })
}

func errOf(_ any, err error) error { return err }

// limiter opens a limiter of a new Client, whose waiters ask on time, and sets its rate.
func (b *fixture) limiter(rate rratelimiter.Rate, opts ...rratelimiter.Option) *rratelimiter.Limiter {
	b.client = rratelimiter.New(b.Conn, append([]rratelimiter.Option{rratelimiter.WithWaitJitter(0)}, opts...)...)
	l := b.client.Limiter("limiter")
	require.NoError(b, l.SetRate(b.Context(), rate))
	return l
}

// granted takes permits within a timeout, and reports whether they were granted.
func (b *fixture) granted(l *rratelimiter.Limiter, permits int64, timeout time.Duration) bool {
	b.Helper()
	ok, err := l.TryAcquireWithin(b.Context(), permits, timeout)
	require.NoError(b, err)
	return ok
}

// idle requires that the engine of a Client holds no state of any limiter.
func (b *fixture) idle(c *rratelimiter.Client) {
	b.Helper()
	opened, err := inside.Open(c)
	require.NoError(b, err)
	assert.True(b, opened.Engine.Idle(), "state of a limiter is left")
}

// remembered takes permits, and reports whether they were denied without a call to Redis.
func (b *fixture) remembered(l *rratelimiter.Limiter, permits int64) (rratelimiter.Decision, bool) {
	b.Helper()
	before := b.Scripts.Load()
	d, err := l.Take(b.Context(), permits)
	if b.Scripts.Load() > before {
		return d, false
	}
	require.NoError(b, err)
	assert.False(b, d.Allowed, "nothing is granted from memory")
	return d, true
}

// ask is a call that requests permits.
type ask struct {
	name   string
	waits  bool
	denied bool // rather than wait
	call   func(ctx context.Context, l *rratelimiter.Limiter, permits int64) error
}

var asks = []ask{
	{"TryAcquire", false, true, func(ctx context.Context, l *rratelimiter.Limiter, n int64) error {
		return errOf(l.TryAcquire(ctx, n))
	}},
	{"Take", false, true, func(ctx context.Context, l *rratelimiter.Limiter, n int64) error {
		return errOf(l.Take(ctx, n))
	}},
	{"TryAcquireWithin no time", false, true, func(ctx context.Context, l *rratelimiter.Limiter, n int64) error {
		return errOf(l.TryAcquireWithin(ctx, n, 0))
	}},
	{"TryAcquireWithin", true, true, func(ctx context.Context, l *rratelimiter.Limiter, n int64) error {
		return errOf(l.TryAcquireWithin(ctx, n, time.Minute))
	}},
	{"Acquire", true, false, func(ctx context.Context, l *rratelimiter.Limiter, n int64) error {
		return l.Acquire(ctx, n)
	}},
}

// pass lets time pass on the fake clock.
func pass(d time.Duration) { redistest.Pass(d) }
