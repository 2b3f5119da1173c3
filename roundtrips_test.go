package rratelimiter

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryCallIsOneRoundTrip once its script is loaded, and works without an error, in one more, where the server has
// forgotten it, as after SCRIPT FLUSH or a restart.
func TestEveryCallIsOneRoundTrip(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := b.limiter(Rate{Permits: 1000, Interval: second})
				call := func() int64 {
					require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 1000, Interval: second}))
					b.Take(l, 2)
					before := b.Sent.Load()
					require.NoError(b, everyCall(l)[name](b.Context()))
					return b.Sent.Load() - before
				}
				call()
				want := int64(1)
				if name == "Release(0)" {
					want = 0
				}
				assert.Equal(b, want, call(), "round trips")

				require.NoError(b, b.Conn.Do(b.Context(), b.Conn.B().ScriptFlush().Build()).Error())
				require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 1000, Interval: second}))
				assert.LessOrEqual(b, call(), int64(2), "round trips after SCRIPT FLUSH")
			})
		})
	}
}
