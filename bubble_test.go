package rratelimiter

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	inmemory "github.com/rratelimiter/rratelimiter/internal/bubble"
)

// bubble is a Redis in memory inside a synctest bubble, and what tests of limiters do with it.
type bubble struct {
	*testing.T
	redis *miniredis.Miniredis
	conn  rueidis.Client

	scripts, sent, latency *atomic.Int64
}

// inBubble runs a test with a Redis in memory and a clock of its own, and fails where a goroutine is left.
func inBubble(t *testing.T, test func(b *bubble)) {
	inmemory.Run(t, func(m *inmemory.Bubble) {
		b := &bubble{m.T, m.Redis, m.Conn, &m.Scripts, &m.Sent, &m.Latency}
		// The scripts that take permits are loaded, so that each call is one round trip.
		none := New(b.conn).Limiter("none")
		_, err := none.TryAcquire(b.Context(), 1)
		require.ErrorIs(b, err, ErrNotInitialized)
		_, err = none.Take(b.Context(), 1)
		require.ErrorIs(b, err, ErrNotInitialized)
		test(b)
	})
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

// remembered asks for permits, and says whether they were denied without a call of Redis.
func (b *bubble) remembered(l *Limiter, permits int64) (Decision, bool) {
	b.Helper()
	before := b.scripts.Load()
	d, err := l.Take(b.Context(), permits)
	if b.scripts.Load() > before {
		return d, false
	}
	require.NoError(b, err)
	assert.False(b, d.Allowed, "nothing is granted from memory")
	return d, true
}

// scriptCall is the keys and the arguments of a command, where it is a call of a script.
func scriptCall(command string, words []string) (keys, args []string) {
	if !strings.EqualFold(command, "EVALSHA") {
		return nil, nil
	}
	const numkeys = 1
	n, err := strconv.Atoi(words[numkeys])
	if err != nil {
		panic(err)
	}
	words = words[numkeys+1:]
	return words[:n], words[n:]
}

// pass lets time pass on the clock of the bubble, which takes none.
func pass(d time.Duration) { inmemory.Pass(d) }
