package rratelimiter_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// A request that no rate could serve is an error and nothing else: as in Redisson it neither tidies up nor keeps a limiter alive.
func TestRequestsAboveTheRateChangeNothing(t *testing.T) {
	ctx := context.Background()
	server := miniredis.RunT(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
	require.NoError(t, err)
	defer client.Close()
	now := time.UnixMilli(1_700_000_000_000)
	l := rratelimiter.New(client, rratelimiter.WithClock(func() time.Time { return now })).Limiter("small")
	require.NoError(t, l.SetRate(ctx, rratelimiter.Rate{Permits: 10, Interval: time.Minute, KeepAlive: time.Hour}))

	calls := map[string]func() error{
		"TryAcquire":       func() error { _, err := l.TryAcquire(ctx, 11); return err },
		"Take":             func() error { _, err := l.Take(ctx, 11); return err },
		"TryAcquireWithin": func() error { _, err := l.TryAcquireWithin(ctx, 11, time.Second); return err },
		"Acquire":          func() error { return l.Acquire(ctx, 11) },
	}
	unchanged := func() {
		t.Helper()
		before := server.Dump()
		server.FastForward(time.Minute)
		ttl := server.TTL("small")
		for name, call := range calls {
			require.ErrorIs(t, call(), rratelimiter.ErrPermitsExceedRate, name)
			require.Equal(t, before, server.Dump(), name)
			require.Equal(t, ttl, server.TTL("small"), "%s keeps the limiter alive", name)
		}
	}
	unchanged() // a fresh limiter has no value, and gets none

	granted, err := l.TryAcquire(ctx, 7)
	require.NoError(t, err)
	require.True(t, granted)
	now = now.Add(2 * time.Minute)
	unchanged() // the grant has left the window, and stays until somebody takes permits
}
