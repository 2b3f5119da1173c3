package engine_test

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// TestObserver_HookFails_OnlyItsCallerIsAffected: it panics, ends its goroutine or blocks.
func TestObserver_HookFails_OnlyItsCallerIsAffected(t *testing.T) {
	for way, fail := range map[string]func(){
		"panics": func() { panic("no hook") }, "ends": runtime.Goexit, "blocks": func() { pass(5 * time.Second) },
	} {
		for _, hook := range []string{"Decision", "RedisCall", "Waiting", "no longer Waiting"} {
			for _, ask := range asks {
				runWithRedis(t, way+" "+hook+" "+ask.name, func(b *fixture) {
					var broken atomic.Int64
					fails := func() {
						if broken.Add(-1) >= 0 {
							fail()
						}
					}
					var length atomic.Int64
					o := &rratelimiter.Observer{Waiting: func(_ context.Context, w rratelimiter.WaitingInfo) {
						length.Add(int64(w.Change))
						if w.Change > 0 == (hook == "Waiting") && hook != "Decision" && hook != "RedisCall" {
							fails()
						}
					}}
					switch hook {
					case "Decision":
						o.Decision = func(context.Context, rratelimiter.DecisionInfo) { fails() }
					case "RedisCall":
						o.RedisCall = func(context.Context, rratelimiter.RedisCallInfo) { fails() }
					}
					l := b.limiter(rratelimiter.Rate{Permits: 1000, Interval: time.Hour}, rratelimiter.WithObserver(o))
					b.Latency.Store(int64(trip))
					var served, failed atomic.Int64
					call := func(ctx context.Context) *sync.WaitGroup {
						var caller sync.WaitGroup
						caller.Add(1)
						go func() {
							defer caller.Done()
							start, whole := time.Now(), false
							defer func() {
								if recover() != nil || !whole || time.Since(start) > 5*trip {
									failed.Add(1)
								} else {
									served.Add(1)
								}
							}()
							assert.NoError(b, ask.call(ctx, l, 1))
							whole = true
						}()
						return &caller
					}
					var all []*sync.WaitGroup
					broken.Store(2)
					for i := range 20 {
						ctx := b.Context()
						if i%2 == 0 {
							ctx = context.Background()
						}
						all = append(all, call(ctx))
						if i%5 == 0 {
							synctest.Wait()
						}
					}
					pass(4 * time.Second)
					want := int64(2)
					if !ask.waits && strings.Contains(hook, "Waiting") {
						want = 0
					}
					assert.Equal(b, 20-want, served.Load())
					for _, caller := range all {
						caller.Wait()
					}
					assert.Equal(b, want, failed.Load())
					assert.Zero(b, length.Load())
					broken.Store(0)
					call(b.Context()).Wait()
					assert.Equal(b, 21-want, served.Load())
					synctest.Wait()
					b.idle(b.client)
				})
			}
		}
	}
}

func TestObserver_HookWithoutACallerFails_QueueGoesOn(t *testing.T) {
	for way, fail := range map[string]func(){"ends": runtime.Goexit, "blocks": func() { pass(time.Minute) }} {
		runWithRedis(t, way, func(b *fixture) {
			var alone atomic.Int64
			l := b.limiter(rratelimiter.Rate{Permits: 1, Interval: second}, rratelimiter.WithObserver(&rratelimiter.Observer{
				RedisCall: func(ctx context.Context, _ rratelimiter.RedisCallInfo) {
					if ctx.Value(callerKey{}) == nil {
						alone.Add(1)
						fail()
					}
				}}))
			b.Latency.Store(int64(trip))
			caller := context.WithValue(b.Context(), callerKey{}, 1)
			leaves, leave := context.WithTimeout(caller, trip/2)
			defer leave()
			_, err := l.TryAcquire(leaves, 1)
			require.ErrorIs(b, err, context.DeadlineExceeded)
			pass(second)
			assert.EqualValues(b, 1, alone.Load())
			start := time.Now()
			ok, err := l.TryAcquire(caller, 1)
			require.NoError(b, err)
			require.True(b, ok)
			for range 3 { // each is asked for before its permit is free, and waits on
				require.NoError(b, l.Acquire(caller, 1))
			}
			assert.InDelta(b, 3*second, time.Since(start), float64(10*trip))
			assert.EqualValues(b, 4, alone.Load())
		})
	}
}

func TestObserver_HookCallsTheLimiter_IsAnswered(t *testing.T) {
	withRedis(t, func(b *fixture) {
		var l *rratelimiter.Limiter
		var asked atomic.Int64
		again := func(ctx context.Context) {
			if ctx.Value(callerKey{}) == nil { // the hook does not observe its own calls
				ctx = context.WithValue(ctx, callerKey{}, 1)
				assert.NoError(b, l.Acquire(ctx, 1))
				_, err := l.TryAcquire(ctx, 1)
				assert.NoError(b, err)
				_, err = l.AvailablePermits(ctx)
				assert.NoError(b, err)
				asked.Add(1)
			}
		}
		l = b.limiter(rratelimiter.Rate{Permits: 1000, Interval: time.Hour}, rratelimiter.WithObserver(&rratelimiter.Observer{
			Decision:  func(ctx context.Context, _ rratelimiter.DecisionInfo) { again(ctx) },
			RedisCall: func(ctx context.Context, _ rratelimiter.RedisCallInfo) { again(ctx) },
			Waiting:   func(ctx context.Context, _ rratelimiter.WaitingInfo) { again(ctx) },
		}))
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() { b.Take(l, 1) })
			callers.Go(func() { assert.NoError(b, l.Acquire(b.Context(), 1)) })
		}
		callers.Wait()
		synctest.Wait()
		assert.GreaterOrEqual(b, asked.Load(), int64(10+10+2*10))
	})
}

func TestWithObserver_FieldsChangeLater_AreNotRead(t *testing.T) {
	withRedis(t, func(b *fixture) {
		var reported int
		o := &rratelimiter.Observer{Decision: func(context.Context, rratelimiter.DecisionInfo) { reported++ }}
		given := rratelimiter.WithObserver(o)
		o.Decision = nil
		b.Take(b.limiter(rratelimiter.Rate{Permits: 10, Interval: time.Hour}, given), 1)
		assert.Equal(b, 1, reported)
	})
}
