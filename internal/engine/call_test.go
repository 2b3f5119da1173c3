package engine_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// Calls of more than 16 limiters go in pipelines, which do not end with the context of a caller. A
// command is not sent all the same once its caller has left.
func TestChange_CallerHasLeft_IsNotSent(t *testing.T) {
	leases := []rratelimiter.Option{rratelimiter.WithLease(time.Second)}
	for _, others := range []int{0, 40} {
		for name, test := range map[string]struct {
			opts    []rratelimiter.Option
			prepare func(b *fixture, l *rratelimiter.Limiter)
		}{
			"while leases are released": {leases, func(b *fixture, l *rratelimiter.Limiter) {
				require.NoError(b, l.Release(b.Context(), 1)) // Redis knows the script
				for range 40 {
					b.Take(l, 1)
				}
				pass(10 * time.Millisecond)
			}},
			"before Redis reports an unknown script": {nil, func(b *fixture, l *rratelimiter.Limiter) { b.Take(l, 40) }},
		} {
			t.Run(fmt.Sprintf("%s, %d other limiters", name, others), func(t *testing.T) {
				withRedis(t, func(b *fixture) {
					l := b.limiter(rratelimiter.Rate{Permits: 100, Interval: time.Hour}, test.opts...)
					rate := rratelimiter.Rate{Permits: 1000, Interval: time.Hour}
					for i := range others {
						require.NoError(b, b.client.Limiter(fmt.Sprint("other:", i)).SetRate(b.Context(), rate))
					}
					test.prepare(b, l)
					b.Latency.Store(int64(10 * time.Millisecond))
					busy, stop := context.WithTimeout(b.Context(), 300*time.Millisecond)
					defer stop()
					var done sync.WaitGroup
					for i := range others {
						done.Go(func() {
							for busy.Err() == nil {
								_, _ = b.client.Limiter(fmt.Sprint("other:", i)).TryAcquire(busy, 1)
							}
						})
					}
					pass(50 * time.Millisecond)
					ctx, cancel := context.WithTimeout(b.Context(), 5*time.Millisecond)
					defer cancel()
					require.ErrorIs(b, l.Release(ctx, 40), context.DeadlineExceeded)
					done.Wait()
					b.Latency.Store(0)
					pass(2 * time.Second)
					free, err := l.AvailablePermits(b.Context())
					require.NoError(b, err)
					assert.EqualValues(b, 60, free, "the 40 permits in use are taken")
				})
			})
		}
	}
}

func TestSlot_CallerLeaves_NoGoroutineOutlivesTheLastCommand(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour})
		var last atomic.Int64
		b.Redis.Server().SetPreHook(func(p *server.Peer, command string, _ ...string) bool {
			if !strings.EqualFold(command, "EVALSHA") {
				return false
			}
			last.Store(time.Now().UnixNano())
			p.WriteError("TRYAGAIN Multiple keys request during rehashing of slot")
			return true
		})
		ctx, cancel := context.WithTimeout(b.Context(), 128*time.Millisecond)
		defer cancel()
		_, err := l.TryAcquire(ctx, 1)
		require.ErrorIs(b, err, context.DeadlineExceeded)
		pass(time.Until(time.Unix(0, last.Load()).Add(101 * time.Millisecond)))
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		assert.NotContains(b, string(stacks), "redisx.Retry")
	})
}

// TestSlot_Moves_CallIsRepeated: no script ran, so a retry is safe. The grant has the time of the
// retry.
func TestSlot_Moves_CallIsRepeated(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour})
		const moving = "TRYAGAIN Multiple keys request during rehashing of slot"
		b.Redis.SetError(moving)
		time.AfterFunc(100*time.Millisecond, func() { b.Redis.SetError("") })
		start := time.Now()
		b.Take(l, 10)
		assert.Less(b, time.Since(start), 200*time.Millisecond)
		members, err := b.Redis.ZMembers("{limiter}:permits")
		require.NoError(b, err)
		score, err := b.Redis.ZScore("{limiter}:permits", members[0])
		require.NoError(b, err)
		assert.GreaterOrEqual(b, int64(score), start.UnixMilli()+100)

		// Free permits are those at the time of the answer, too.
		quick := rratelimiter.New(b.Conn).Limiter("quick")
		require.NoError(b, quick.SetRate(b.Context(), rratelimiter.Rate{Permits: 10, Interval: second}))
		b.Take(quick, 10)
		pass(950 * time.Millisecond)
		b.Redis.SetError(moving)
		time.AfterFunc(100*time.Millisecond, func() { b.Redis.SetError("") })
		b.Free(quick, 10)
	})
}

func TestSlot_Moves_DenialCountsFromTheRetry(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour}, rratelimiter.WithDenialCache(time.Hour))
		start := time.Now()
		b.Take(l, 10)
		b.Redis.SetError("TRYAGAIN Multiple keys request during rehashing of slot")
		time.AfterFunc(100*time.Millisecond, func() { b.Redis.SetError("") })
		b.Full(l, 1)
		pass(second)
		d, denied := b.remembered(l, 1)
		assert.True(b, denied)
		assert.Equal(b, time.Hour-time.Since(start), d.RetryAfter)
	})
}

func TestSlot_KeepsMoving_FailsAfterAQuarterOfASecond(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour})
		b.Redis.SetError("TRYAGAIN Multiple keys request during rehashing of slot")
		for name, call := range map[string]func() error{
			"TryAcquire": func() error { return errOf(l.TryAcquire(b.Context(), 1)) },
			"Release":    func() error { return l.Release(b.Context(), 1) },
		} {
			start := time.Now()
			assert.ErrorContains(b, call(), "TRYAGAIN")
			assert.Equal(b, 255*time.Millisecond, time.Since(start), name)
		}
		b.Redis.SetError("")
	})
}
