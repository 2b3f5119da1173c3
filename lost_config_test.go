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

// The configuration was evicted, the grants were not. A rate that keeps the state counts them, as in Redisson: otherwise the window
// would hold 10 + 10 permits for a rate of 10.
func TestKeepStateWhereTheConfigurationWasLost(t *testing.T) {
	ctx := context.Background()
	for _, kind := range []rratelimiter.RateType{rratelimiter.Overall, rratelimiter.PerClient} {
		t.Run(kind.String(), func(t *testing.T) {
			server := miniredis.RunT(t)
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true, ForceSingleClient: true})
			require.NoError(t, err)
			defer client.Close()
			now := time.UnixMilli(1_700_000_000_000)
			l := rratelimiter.New(client, rratelimiter.WithClock(func() time.Time { return now })).Limiter("lost")
			rate := rratelimiter.Rate{Type: kind, Permits: 10, Interval: time.Minute}
			require.NoError(t, l.SetRate(ctx, rate))
			granted, err := l.TryAcquire(ctx, 10)
			require.NoError(t, err)
			require.True(t, granted)

			require.True(t, server.Del("lost"))
			now = now.Add(time.Second)
			updated, err := l.UpdateRate(ctx, rate, rratelimiter.KeepState())
			require.NoError(t, err)
			require.False(t, updated, "there is no limiter to update")
			require.NoError(t, l.SetRate(ctx, rate, rratelimiter.KeepState()))
			granted, err = l.TryAcquire(ctx, 1)
			require.NoError(t, err)
			require.False(t, granted)

			now = now.Add(time.Minute)
			granted, err = l.TryAcquire(ctx, 10)
			require.NoError(t, err)
			require.True(t, granted)
		})
	}
}
