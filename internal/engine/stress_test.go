package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestLimiter_CallersLeaveAtAnyTime_NoPermitIsLost: each caller has one answer, the callers that
// stayed have the permits that are taken, and no state is left.
func TestLimiter_CallersLeaveAtAnyTime_NoPermitIsLost(t *testing.T) {
	for seed := range redistest.Deep(2, 20) {
		for kind, settings := range map[string]Settings{
			"":                      {},
			", with a denial cache": {Denials: time.Hour},
			", server time":         {ServerTime: true},
			", with prefetches":     {Prefetch: 20 * time.Millisecond},
		} {
			runWithServer(t, fmt.Sprint(seed, kind), func(t *testing.T, f *fixture) {
				random := rand.New(rand.NewPCG(uint64(seed), 9))
				o := new(events)
				settings.Redis, settings.Observer = f.Conn, o.observer(t)
				g := New(settings)
				rate := int64(1 + random.IntN(400))
				limiters := make([]*fake, 1+random.IntN(40))
				for i := range limiters {
					limiters[i] = open(g, fmt.Sprint("limiter:", i), rate, time.Hour)
				}
				granted := make([]atomic.Int64, len(limiters))
				f.Latency.Store(random.Int64N(int64(10 * time.Millisecond)))
				var callers sync.WaitGroup
				started := 0
				for range 6 {
					for range random.IntN(400) {
						started++
						i, permits, what := random.IntN(len(limiters)), 1+random.Int64N(1+rate/20), random.IntN(6)
						if random.IntN(20) == 0 {
							permits = rate + 1
						}
						after := time.Duration(random.Int64N(int64(20 * time.Millisecond)))
						timeout := time.Duration(2 + random.Int64N(int64(30*time.Millisecond)))
						leaves := random.IntN(3) > 0 || what == 5
						callers.Go(func() {
							time.Sleep(after)
							ctx := context.WithValue(context.Background(), callerKey{}, 1)
							if leaves {
								var cancel context.CancelFunc
								ctx, cancel = context.WithCancel(ctx)
								defer cancel()
								time.AfterFunc(timeout, cancel)
							}
							l, start := limiters[i], time.Now()
							result, err := Result{Granted: permits}, error(nil)
							switch what {
							case 0:
								result, err = l.Try(ctx, Ask{Permits: permits})
							case 1:
								result, err = l.Take(ctx, permits)
							case 2:
								result, err = l.TakeUpTo(ctx, permits)
							case 3:
								result.Allowed, err = l.TryAcquireWithin(ctx, permits, timeout/2)
							case 4:
								result.Allowed, err = l.TryAcquireWithin(ctx, permits, time.Nanosecond)
							case 5:
								result.Allowed, err = l.TryAcquireWithin(ctx, permits, 0)
							}
							if leaves || what >= 3 {
								assert.LessOrEqual(t, time.Since(start), timeout)
							}
							if err != nil {
								assert.False(t, result.Allowed)
								assert.True(t, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
									permits > rate && errors.As(err, new(aboveLimit)), "%v", err)
							}
							if result.Allowed {
								granted[i].Add(result.Granted)
							}
						})
					}
					time.Sleep(time.Duration(random.Int64N(int64(60 * time.Millisecond))))
					if random.IntN(2) == 0 {
						callers.Wait()
						time.Sleep(time.Second)
					}
				}
				callers.Wait()
				f.Latency.Store(0)
				time.Sleep(time.Second)
				synctest.Wait()
				assert.True(t, g.idle())
				for i := range g.registry.active.counts {
					assert.Zero(t, g.registry.active.counts[i].Load()&^crowdedBit)
				}
				assert.Empty(t, g.observer.waiting, "no state of callers that do not wait")
				decisions, calls, waits := o.all()
				assert.Len(t, decisions, started)
				reported, waiting := int64(0), 0
				for _, d := range decisions {
					if d.Granted {
						reported += d.Permits
					}
				}
				for i, l := range limiters {
					assert.Equal(t, rate-granted[i].Load(), f.free(l), "free permits")
					reported -= granted[i].Load()
				}
				assert.Zero(t, reported)
				for _, w := range waits {
					waiting += w.Change
				}
				assert.Zero(t, waiting)
				assert.Less(t, o.alone.Load(), int64(len(calls)/2), "callers that stay report their calls")
			})
		}
	}
}
