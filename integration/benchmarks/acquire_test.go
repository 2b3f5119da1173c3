package main

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		exit(serveChild(role))
	}
	os.Exit(m.Run())
}

// One caller alone: the cost of a single call.
func BenchmarkTryAcquire(b *testing.B) {
	for _, target := range []struct {
		name string
		addr func(b *testing.B) string
	}{
		{"redis", func(b *testing.B) string { return servers.Single(b).Addr() }},
		{"miniredis", func(b *testing.B) string {
			c, err := openChild("miniredis")
			require.NoError(b, err)
			b.Cleanup(func() { require.NoError(b, c.close()) })
			return c.addr
		}},
	} {
		b.Run(target.name, func(b *testing.B) {
			redis, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{target.addr(b)},
				ForceSingleClient: true, DisableCache: true})
			require.NoError(b, err)
			b.Cleanup(redis.Close)
			for _, ctx := range []struct {
				name string
				with func(context.Context) (context.Context, context.CancelFunc)
			}{
				{"plain context", func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} }},
				{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
					return context.WithTimeout(ctx, time.Hour)
				}},
			} {
				for _, granting := range []bool{true, false} {
					rate := rratelimiter.Rate{Permits: 1, Interval: time.Hour}
					if granting {
						rate.Permits = 1_000_000_000
					}
					b.Run(fmt.Sprintf("%s/granted=%v", ctx.name, granting), func(b *testing.B) {
						ctx, cancel := ctx.with(context.Background())
						defer cancel()
						limiter := rratelimiter.New(redis).Limiter("one")
						require.NoError(b, limiter.SetRate(ctx, rate))
						if !granting {
							require.NoError(b, limiter.Acquire(ctx, 1))
						}
						b.ReportAllocs()
						for b.Loop() {
							granted, err := limiter.TryAcquire(ctx, 1)
							if err != nil || granted != granting {
								b.Fatalf("granted=%v, %v; want %v", granted, err, granting)
							}
						}
					})
				}
			}
		})
	}
}
