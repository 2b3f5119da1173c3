// Package denials shows that denials from memory end when Redis tells that somebody else changed the limiter.
package denials

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/leaks"
	"github.com/rratelimiter/rratelimiter/integration/servers"
)

// TestAChangeByOthersEndsADenial: each kind of change, by a client of its own.
func TestAChangeByOthersEndsADenial(t *testing.T) {
	rate := rratelimiter.Rate{Permits: 10, Interval: time.Hour}
	// A denial is looked at again once it is a millisecond since the last time.
	const lookedAt = time.Millisecond + 100*time.Microsecond
	for name, test := range map[string]struct {
		rateType rratelimiter.RateType
		change   func(ctx context.Context, other *rratelimiter.Limiter) error
	}{
		"release": {rratelimiter.Overall, func(ctx context.Context, other *rratelimiter.Limiter) error {
			return other.Release(ctx, 1)
		}},
		"setRate": {rratelimiter.Overall, func(ctx context.Context, other *rratelimiter.Limiter) error {
			return other.SetRate(ctx, rate)
		}},
		"updateRate of a limiter for each client": {rratelimiter.PerClient, func(ctx context.Context, other *rratelimiter.Limiter) error {
			_, err := other.UpdateRate(ctx, rate)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			server := servers.Single(t)
			here, there := connect(t, server), connect(t, server)
			limiter := rratelimiter.New(here, rratelimiter.WithDenialCache()).Limiter("limiter")
			first := rate
			first.Type = test.rateType
			require.NoError(t, limiter.SetRate(ctx, first))
			allowed, err := limiter.TryAcquire(ctx, 10)
			require.NoError(t, err)
			require.True(t, allowed)

			denied := func() bool {
				allowed, err := limiter.TryAcquire(ctx, 1)
				require.NoError(t, err)
				return !allowed
			}
			require.True(t, denied())
			require.Zero(t, leaks.OfLimiters(10*time.Second), "the denial is remembered")
			before := scriptCalls(t, server)
			for range 100 {
				require.True(t, denied())
				time.Sleep(100 * time.Microsecond) // over many looks into the cache of rueidis
			}
			require.Equal(t, before, scriptCalls(t, server), "Redis is not asked any more")

			require.NoError(t, test.change(ctx, rratelimiter.New(there).Limiter("limiter")))
			// Redis tells of a change before it answers what came after it, and on the same connection: from here on this client was told.
			require.NoError(t, here.Do(ctx, here.B().Ping().Build()).Error())
			time.Sleep(lookedAt)
			require.False(t, denied(), "the first call that begins a millisecond after Redis told is answered by Redis")
		})
	}
}

// connect makes a client with a single connection, so that what it is told and what it asks come in one order.
func connect(t *testing.T, server *servers.Server) rueidis.Client {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, PipelineMultiplex: -1})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// scriptCalls is how often the server has run a script.
func scriptCalls(t *testing.T, server *servers.Server) string {
	stats, err := server.Do(t.Context(), "INFO", "commandstats")
	require.NoError(t, err)
	text, err := stats.ToString()
	require.NoError(t, err)
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "cmdstat_evalsha:") {
			calls, _, _ := strings.Cut(line, ",")
			return calls
		}
	}
	return ""
}
