package rratelimiter

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	inmemory "github.com/rratelimiter/rratelimiter/internal/bubble"
)

// bubble is a Redis in memory inside a synctest bubble, with the helpers of this package's tests.
type bubble struct{ *inmemory.Bubble }

// inBubble runs a test with a Redis in memory and a clock of its own. It fails if a goroutine is left.
func inBubble(t *testing.T, test func(b *bubble)) {
	inmemory.Run(t, func(m *inmemory.Bubble) {
		// The scripts that take permits are loaded, so that each call is one round trip.
		none := New(m.Conn).Limiter("none")
		_, err := none.TryAcquire(m.Context(), 1)
		require.ErrorIs(m, err, ErrNotInitialized)
		_, err = none.Take(m.Context(), 1)
		require.ErrorIs(m, err, ErrNotInitialized)
		test(&bubble{m})
	})
}

// limiter opens a limiter and sets its rate.
func (b *bubble) limiter(rate Rate, opts ...Option) *Limiter {
	l := New(b.Conn, opts...).Limiter("limiter")
	require.NoError(b, l.SetRate(b.Context(), rate))
	return l
}

// pass lets time pass on the clock of the bubble.
func pass(d time.Duration) { inmemory.Pass(d) }
