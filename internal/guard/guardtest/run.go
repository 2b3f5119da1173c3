// Package guardtest has the tests that all middleware on package gate must pass.
package guardtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Run runs a test with a Redis in memory, a fake clock, and a Client that is connected. The fake
// clock begins at 2000-01-01 00:00 UTC. The test fails if a goroutine is left.
func Run(t *testing.T, test func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client)) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		client := rratelimiter.New(f.Conn)
		window := limit.FixedWindow{Permits: 1, Interval: time.Millisecond}
		_, err := limit.New(client, "warm", window).Take(t.Context(), 1) // loads the script of a window
		require.NoError(t, err)
		test(t, f, client)
	})
}
