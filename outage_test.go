package rratelimiter

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Issue 9, point 6: during an outage every call has its error, and nobody asks on once its callers have gone.
func TestNothingGoesOnThroughAnOutage(t *testing.T) {
	for name := range everyCall(new(Limiter)) {
		if name == "Release(0)" {
			continue
		}
		for kind, opts := range map[string][]Option{"": nil, ", with a denial cache": {WithDenialCache(time.Hour)}} {
			t.Run(name+kind, func(t *testing.T) {
				inBubble(t, func(b *bubble) {
					var down atomic.Bool
					var dials atomic.Int64
					conn, err := rueidis.NewClient(rueidis.ClientOption{
						InitAddress: []string{"in-memory"}, ForceSingleClient: true, DisableCache: true,
						DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
							dials.Add(1)
							if down.Load() {
								return nil, errors.New("connection refused")
							}
							return b.Redis.Dial()
						},
					})
					require.NoError(b, err)
					defer conn.Close()
					l := New(conn, opts...).Limiter("limiter")
					require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}))
					b.Take(l, 10)
					b.Full(l, 1)
					pass(second)
					require.NoError(b, l.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}))
					down.Store(true)
					b.Redis.Server().Close() // the connections that there are end

					var callers sync.WaitGroup
					call := everyCall(l)[name]
					for range 20 {
						callers.Go(func() {
							ctx, cancel := context.WithTimeout(b.Context(), 20*time.Millisecond)
							defer cancel()
							assert.Error(b, call(ctx))
						})
						callers.Go(func() { assert.Error(b, call(context.Background())) })
					}
					start := time.Now()
					callers.Wait()
					assert.LessOrEqual(b, time.Since(start), second, "an error, whether the context can end or not")
					pass(second)
					before := dials.Load()
					pass(time.Minute)
					assert.Equal(b, before, dials.Load(), "attempts once nobody waits")
				})
			})
		}
	}
}
