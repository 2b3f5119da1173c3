package rratelimiter

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
				b.redis.Server().SetPreHook(func(_ *server.Peer, command string, args ...string) bool {
					const runs = 2 + 5 + 3 // sha1, number of keys, keys, and the arguments before the runs
					if !strings.EqualFold(command, "EVALSHA") || len(args) <= runs {
						return false
					}
					n := 0
					for run := range strings.FieldsSeq(args[runs]) {
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
				b.latency.Store(int64(10 * time.Millisecond))
				_, errs := crowd(b, 3*mostRequests, func(i int) (Decision, error) {
					return Decision{}, call(b.Context(), l, int64(1+i%3))
				})
				for _, err := range errs {
					require.NoError(b, err)
				}
				b.free(l, 1<<40-3*mostRequests*2)
				most := 0
				for _, n := range carried {
					most = max(most, n)
				}
				assert.Equal(b, mostRequests, most)
			})
		})
	}
}

// Issue 9, point 10: callers that have gone leave nothing behind while a call hangs, and what they wanted is not wanted.
func TestAbandonedRequestsLeave(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: maxPermits, Interval: time.Hour})
		b.latency.Store(int64(5 * second))
		held := func() (requests int) {
			e := l.client.names.find("limiter")
			defer l.client.names.unlock(e)
			for b := e.first; b != nil; b = b.next {
				requests += len(b.requests)
			}
			return requests
		}
		var callers sync.WaitGroup
		for wave := range 5 {
			ctx, cancel := context.WithCancel(b.Context())
			for range 5000 {
				callers.Go(func() {
					_, err := l.TryAcquire(ctx, 1<<20)
					assert.ErrorIs(b, err, context.Canceled)
				})
			}
			synctest.Wait()
			cancel()
			callers.Wait()
			assert.LessOrEqual(b, held(), 1, "requests of nobody, wave %d", wave)
		}
		// Those who stay keep their places.
		stay, cancel := context.WithCancel(b.Context())
		defer cancel()
		_, errs := crowd(b, 100, func(i int) (Decision, error) {
			ctx := stay
			if i%2 == 0 {
				var gone context.CancelFunc
				ctx, gone = context.WithTimeout(stay, second)
				defer gone()
			}
			ok, err := l.TryAcquire(ctx, int64(1+i))
			if err == nil && !ok {
				err = fmt.Errorf("denied")
			}
			return Decision{}, err
		})
		for i, err := range errs {
			if i%2 == 0 {
				assert.ErrorIs(b, err, context.DeadlineExceeded)
			} else {
				assert.NoError(b, err)
			}
		}
		pass(time.Minute)
		b.latency.Store(0)
		b.free(l, maxPermits-2550)
	})
}

// Issue 9, point 9: names do not wait for each other.
func TestANameDoesNotWaitForAnother(t *testing.T) {
	inBubble(t, func(b *bubble) {
		l := b.limiter(Rate{Permits: 10, Interval: time.Hour})
		other := l.client.Limiter("other")
		require.NoError(b, other.SetRate(b.Context(), Rate{Permits: 10, Interval: time.Hour}))
		e := l.client.names.lock(l)
		require.NoError(b, other.Acquire(b.Context(), 1)) // hangs where the names share a lock
		b.take(other, 1)
		l.client.names.unlock(e)
		synctest.Wait()
		assert.True(b, l.client.engine.Idle())
	})
}
