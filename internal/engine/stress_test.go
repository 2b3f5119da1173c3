package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestLimiter_CallersLeaveAtAnyTime_NoPermitIsLost: each caller has one answer, the callers that
// stayed have the permits that are taken, and no state is left.
func TestLimiter_CallersLeaveAtAnyTime_NoPermitIsLost(t *testing.T) {
	seeds := 2
	if s, err := strconv.Atoi(os.Getenv("STRESS_SEEDS")); err == nil {
		seeds = s
	}
	for seed := range seeds {
		for kind, settings := range map[string]Settings{
			"":                      {},
			", with a denial cache": {Denials: time.Hour},
			", server time":         {ServerTime: true},
			", with leases":         {Lease: 20 * time.Millisecond},
		} {
			runWithServer(t, fmt.Sprint(seed, kind), func(t *testing.T, f *fixture) {
				random := rand.New(rand.NewPCG(uint64(seed), 9))
				o := new(events)
				settings.Redis, settings.Observer = f.Conn, o.observer(t)
				g := New(settings)
				names := 1 + random.IntN(40)
				rate := int64(1 + random.IntN(400))
				opened := make([][2]*fake, names)
				granted := make([]atomic.Int64, names)
				for i := range opened {
					for j := range opened[i] {
						opened[i][j] = open(g, fmt.Sprint("limiter:", i), rate, time.Hour)
					}
				}
				f.Latency.Store(random.Int64N(int64(10 * time.Millisecond)))
				var callers sync.WaitGroup
				var answers atomic.Int64
				started := 0
				for range 6 {
					for range random.IntN(400) {
						started++
						i, permits, what := random.IntN(names), 1+random.Int64N(1+rate/20), random.IntN(7)
						if random.IntN(20) == 0 {
							permits = rate + 1
						}
						l := opened[i][random.IntN(2)]
						after := time.Duration(random.Int64N(int64(20 * time.Millisecond)))
						timeout := time.Duration(1 + random.Int64N(int64(30*time.Millisecond)))
						leaves := random.IntN(3) > 0 || what == 2
						callers.Go(func() {
							time.Sleep(after)
							ctx := context.WithValue(context.Background(), callerKey{}, 1)
							if leaves {
								var cancel context.CancelFunc
								if what%2 == 0 {
									ctx, cancel = context.WithTimeout(ctx, timeout)
								} else {
									ctx, cancel = context.WithCancel(ctx)
									time.AfterFunc(timeout, cancel)
								}
								defer cancel()
							}
							var ok bool
							var err error
							start := time.Now()
							switch what {
							case 0, 1:
								ok, err = l.TryAcquire(ctx, permits)
							case 2:
								err = l.Acquire(ctx, permits)
								ok = err == nil
							case 3:
								ok, err = l.TryAcquireWithin(ctx, permits, timeout/2)
								assert.LessOrEqual(t, time.Since(start), timeout/2+lastTry)
							case 4:
								ok, err = l.TryAcquireWithin(ctx, permits, time.Nanosecond)
							case 5:
								var result Result
								result, err = l.Take(ctx, permits)
								ok = result.Allowed
							case 6:
								var result Result
								result, err = l.TakeUpTo(ctx, permits)
								ok, permits = result.Allowed, result.Granted
							}
							if leaves && what != 3 && what != 4 {
								assert.LessOrEqual(t, time.Since(start), timeout)
							}
							if err != nil {
								assert.False(t, ok)
								assert.True(t, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) ||
									permits > rate && errors.As(err, new(aboveLimit)), "%v", err)
							}
							if ok {
								granted[i].Add(permits)
							}
							answers.Add(1)
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
				assert.EqualValues(t, started, answers.Load())
				assert.True(t, g.idle())
				for i := range g.registry.busy.counts {
					assert.Zero(t, g.registry.busy.counts[i].Load())
				}
				assert.Empty(t, g.observer.waiting, "no state of callers that do not wait")
				total, reported, waiting := int64(0), int64(0), 0
				for i := range opened {
					assert.Equal(t, rate-granted[i].Load(), f.free(opened[i][0]), "free permits")
					total += granted[i].Load()
				}
				decisions, calls, waits := o.all()
				for _, d := range decisions {
					if d.Granted {
						reported += d.Permits
					}
				}
				for _, w := range waits {
					waiting += w.Change
				}
				assert.Len(t, decisions, started)
				assert.Equal(t, total, reported)
				assert.Zero(t, waiting)
				assert.Less(t, o.alone.Load(), int64(len(calls)/2), "callers that stay report their calls")
			})
		}
	}
}
