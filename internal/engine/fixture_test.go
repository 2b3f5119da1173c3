package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	inmemory "github.com/rratelimiter/rratelimiter/internal/bubble"
	"github.com/rratelimiter/rratelimiter/internal/inside"
)

// The tests of this package call the engine through Redisson's limiter.

const second = time.Second

// requestsArg is the index of the requests in the arguments of the acquire script.
const requestsArg = 7

// bubble is a Redis in memory inside a synctest bubble, and the Client of the last limiter.
type bubble struct {
	*inmemory.Bubble
	client *rratelimiter.Client
}

// inBubble runs a test with a Redis in memory and a clock of its own. It fails if a goroutine is left.
func inBubble(t *testing.T, test func(b *bubble)) {
	inmemory.Run(t, func(m *inmemory.Bubble) {
		// The scripts that take permits are loaded, so that each call is one round trip.
		none := rratelimiter.New(m.Conn).Limiter("none")
		_, err := none.TryAcquire(m.Context(), 1)
		require.ErrorIs(m, err, rratelimiter.ErrNotInitialized)
		_, err = none.Take(m.Context(), 1)
		require.ErrorIs(m, err, rratelimiter.ErrNotInitialized)
		test(&bubble{Bubble: m})
	})
}

// limiter opens a limiter of a new Client and sets its rate.
func (b *bubble) limiter(rate rratelimiter.Rate, opts ...rratelimiter.Option) *rratelimiter.Limiter {
	b.client = rratelimiter.New(b.Conn, opts...)
	l := b.client.Limiter("limiter")
	require.NoError(b, l.SetRate(b.Context(), rate))
	return l
}

// idle requires that the engine of a Client holds no state of any limiter.
func (b *bubble) idle(c *rratelimiter.Client) {
	b.Helper()
	opened, err := inside.Open(c)
	require.NoError(b, err)
	assert.True(b, opened.Engine.Idle(), "state of a limiter is left")
}

// remembered takes permits, and reports whether they were denied without a call to Redis.
func (b *bubble) remembered(l *rratelimiter.Limiter, permits int64) (rratelimiter.Decision, bool) {
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

// pass lets time pass on the clock of the bubble.
func pass(d time.Duration) { inmemory.Pass(d) }
