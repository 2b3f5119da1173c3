package guardtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// BenchmarkServer measures requests without a limiter, and denials from the denial cache. The
// difference is the cost of the middleware: each includes the server of the test.
func BenchmarkServer(b *testing.B, m Middleware) {
	client, redis := Connect(b, rratelimiter.WithDenialCache(time.Hour))
	day := []limit.Policy{limit.FixedWindow{Permits: 1, Interval: 24 * time.Hour}}
	one := limit.New(client, "api:one", day...)
	for name, c := range map[string]struct {
		s      Settings
		status int
	}{
		"NoLimiter": {Settings{}, 200},
		"Shadow":    {Settings{Limiter: one, Shadow: true}, 200},
		"Denied":    {Settings{Limiter: one}, 429},
		"Each":      {Settings{Client: client, Each: day}, 429},
	} {
		b.Run(name, func(b *testing.B) {
			c.s.Deadline = time.Minute
			server := m.Server(c.s)
			for range 2 { // the second is denied
				server(b.Context(), "one")
			}
			sent := redis.CommandCount()
			b.ReportAllocs()
			for b.Loop() {
				require.Equal(b, c.status, server(b.Context(), "one").Status)
			}
			require.Zero(b, redis.CommandCount()-sent, "commands that were sent")
		})
	}
}
