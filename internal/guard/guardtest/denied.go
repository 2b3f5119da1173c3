package guardtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Day is the policy of the limiters of NewDenied.
var Day = limit.FixedWindow{Permits: 1, Interval: 24 * time.Hour}

// NewDenied returns a Client that answers from memory that limiters of some names are denied. A
// benchmark that runs within FromMemory fails if it asks Redis.
func NewDenied(b *testing.B, names ...string) (
	_ *rratelimiter.Client, fromMemory func(b *testing.B, run func()),
) {
	client, server := Connect(b, rratelimiter.WithDenialCache(time.Hour))
	fromMemory = func(b *testing.B, run func()) {
		before := server.CommandCount()
		run()
		require.Zero(b, server.CommandCount()-before, "commands that were sent")
	}
	for _, name := range names {
		l := limit.New(client, name, Day)
		for _, allowed := range []bool{true, false} {
			d, err := l.Take(b.Context(), 1)
			require.NoError(b, err)
			require.Equal(b, allowed, d.Allowed)
		}
	}
	return client, fromMemory
}

// BenchmarkTake measures denials of a limiter without middleware.
func BenchmarkTake(b *testing.B, limiter *limit.Limiter) {
	b.ReportAllocs()
	for b.Loop() {
		if d, err := limiter.Take(b.Context(), 1); err != nil || d.Allowed {
			b.Fatal(d, err)
		}
	}
}
