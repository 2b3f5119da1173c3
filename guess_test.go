package rratelimiter

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheTimeLessTheInterval, which spares the script to make a text of it: it is told to whoever asks a second time, and again
// where another client has changed the interval; what is granted never goes by it.
func TestTheTimeLessTheInterval(t *testing.T) {
	inBubble(t, func(b *bubble) {
		var guess string
		b.redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
			if strings.EqualFold(command, "EVALSHA") {
				guess = "none"
				const at = 2 + 5 + 2 // sha1, number of keys, keys, time and member
				if len(args) > at {
					guess = args[at]
				}
			}
			return false
		})
		less := func(interval time.Duration) string {
			return strconv.FormatInt(time.Now().Add(-interval).UnixMilli(), 10)
		}
		other := New(b.quickConn())
		l := b.limiter(Rate{Permits: 10, Interval: time.Minute})
		for i, want := range []string{"none", "0", less(time.Minute), less(time.Minute)} {
			b.take(l, 1)
			assert.Equal(b, want, guess, i)
		}
		pass(time.Second)
		b.full(l, 10)
		assert.Equal(b, less(time.Minute), guess, "of a denial")

		require.NoError(b, other.Limiter("limiter").SetRate(b.Context(), Rate{Permits: 10, Interval: time.Second}, KeepState()))
		for _, want := range []string{less(time.Minute), less(time.Second)} {
			b.take(l, 1)
			assert.Equal(b, want, guess)
		}
		b.take(l, 8)
		b.full(l, 1)
		require.NoError(b, other.Limiter("limiter").SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}, KeepState()))
		pass(2 * time.Second)
		b.full(l, 1) // by the wrong guess they would be free
		assert.Equal(b, less(time.Second), guess)
		pass(time.Hour)
		b.take(l, 10)

		served := New(b.conn, WithServerTime()).Limiter("limiter")
		require.NoError(b, served.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Minute}))
		for range 3 {
			b.take(served, 1)
			assert.Equal(b, "none", guess, "nobody but the server knows the time")
		}
	})
}
