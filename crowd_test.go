package rratelimiter

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	inmemory "github.com/rratelimiter/rratelimiter/internal/bubble"
	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// Issue 9, point 9: what one call carries is bounded, however many ask.
func TestACallCarriesSoManyRequestsAtMost(t *testing.T) {
	for name, call := range map[string]func(context.Context, *Limiter, int64) error{
		"TryAcquire": func(ctx context.Context, l *Limiter, n int64) error { _, err := l.TryAcquire(ctx, n); return err },
		"Acquire":    func(ctx context.Context, l *Limiter, n int64) error { return l.Acquire(ctx, n) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				l := b.limiter(Rate{Permits: 1 << 40, Interval: time.Hour})
				var mu sync.Mutex
				var carried []int
				b.Redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
					_, given := inmemory.ScriptCall(command, args)
					if len(given) <= runsArg {
						return false
					}
					n := 0
					for run := range strings.FieldsSeq(given[runsArg]) {
						_, times, _ := strings.Cut(run, "*")
						count, err := strconv.Atoi(times)
						assert.NoError(b, err)
						n += count
					}
					mu.Lock()
					defer mu.Unlock()
					carried = append(carried, n)
					return false
				})
				b.Latency.Store(int64(10 * time.Millisecond))
				_, errs := inmemory.Crowd(3*engine.MostRequests, func(i int) (Decision, error) {
					return Decision{}, call(b.Context(), l, int64(1+i%3))
				})
				for _, err := range errs {
					require.NoError(b, err)
				}
				b.Free(l, 1<<40-3*engine.MostRequests*2)
				most := 0
				for _, n := range carried {
					most = max(most, n)
				}
				assert.Equal(b, engine.MostRequests, most)
			})
		})
	}
}
