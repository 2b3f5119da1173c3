package engine

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestObserver_HookFails_OnlyItsCallerIsAffected: it panics, ends its goroutine or blocks.
func TestObserver_HookFails_OnlyItsCallerIsAffected(t *testing.T) {
	const callers, broken = 20, 2
	for kind, fail := range map[string]func(){
		"panics": func() { panic("no hook") }, "ends": runtime.Goexit, "blocks": func() { time.Sleep(5 * time.Second) },
	} {
		for _, hook := range []string{"Decision", "RedisCall", "Waiting", "Waiting ends"} {
			for _, way := range ways {
				runWithServer(t, kind+" "+hook+" "+way.name, func(t *testing.T, f *fixture) {
					var fails, length, served atomic.Int64
					called := func(name string) {
						if name == hook && fails.Add(-1) >= 0 {
							fail()
						}
					}
					l := f.open(Settings{Observer: &Observer{
						Decision:  func(context.Context, DecisionInfo) { called("Decision") },
						RedisCall: func(context.Context, RedisCallInfo) { called("RedisCall") },
						Waiting: func(_ context.Context, w WaitingInfo) {
							length.Add(int64(w.Change))
							called(map[int]string{1: "Waiting", -1: "Waiting ends"}[w.Change])
						},
					}}, 1000, time.Hour)
					f.Latency.Store(int64(trip))
					call := func(ctx context.Context) {
						defer func() { _ = recover() }()
						start := time.Now()
						assert.NoError(t, way.call(ctx, l, 1))
						if time.Since(start) <= 5*trip {
							served.Add(1)
						}
					}
					fails.Store(broken)
					var all sync.WaitGroup
					for i := range callers {
						ctx := t.Context()
						if i%2 == 0 {
							ctx = context.Background()
						}
						all.Go(func() { call(ctx) })
						if i%5 == 0 {
							synctest.Wait()
						}
					}
					all.Wait()
					assert.GreaterOrEqual(t, served.Load(), int64(callers-broken))
					assert.Zero(t, length.Load())
					fails.Store(0)
					served.Store(0)
					call(t.Context())
					assert.EqualValues(t, 1, served.Load())
					synctest.Wait()
					f.idle(l)
				})
			}
		}
	}
}

func TestObserver_HookWithoutACallerFails_QueueGoesOn(t *testing.T) {
	for kind, fail := range map[string]func(){"ends": runtime.Goexit, "blocks": func() { time.Sleep(time.Minute) }} {
		runWithServer(t, kind, func(t *testing.T, f *fixture) {
			var alone atomic.Int64
			l := f.open(Settings{Observer: &Observer{
				RedisCall: func(ctx context.Context, _ RedisCallInfo) {
					if ctx.Value(callerKey{}) == nil {
						alone.Add(1)
						fail()
					}
				},
			}}, 1, time.Second)
			f.Latency.Store(int64(trip))
			caller := context.WithValue(t.Context(), callerKey{}, 1)
			start := time.Now()
			f.RequireTrue(l.TryAcquire(caller, 1))
			for range 3 {
				require.NoError(t, l.Acquire(caller, 1))
			}
			assert.InDelta(t, 3*time.Second, time.Since(start), float64(10*trip))
			assert.Positive(t, alone.Load(), "a call that was denied has no caller")
		})
	}
}

// TestObserver_HookWithoutACallerPanics_EndsTheProgram: as with singleflight, no caller can recover it.
func TestObserver_HookWithoutACallerPanics_EndsTheProgram(t *testing.T) {
	const hook = "ENGINE_TEST_HOOK" // of a program that this test starts
	if os.Getenv(hook) == "" {
		for _, name := range []string{"RedisCall", "Places"} {
			program := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
			program.Env = append(os.Environ(), hook+"="+name)
			output, err := program.CombinedOutput()
			assert.Error(t, err, "%s: %s", name, output)
			assert.Contains(t, string(output), "panic: no hook for "+name)
		}
		return
	}
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.open(Settings{Observer: &Observer{
			RedisCall: func(ctx context.Context, _ RedisCallInfo) {
				if os.Getenv(hook) == "RedisCall" && ctx.Value(callerKey{}) == nil {
					panic("no hook for RedisCall")
				}
			},
			Places: func(PlacesInfo) { panic("no hook for Places") },
		}}, 1, time.Second)
		caller := context.WithValue(t.Context(), callerKey{}, 1)
		f.RequireTrue(l.TryAcquire(caller, 1))
		require.NoError(t, l.Acquire(caller, 1)) // its first call is denied and has no caller
		l.Engine.ReportExpired("places", 1)
		synctest.Wait()
	})
}

// TestObserver_Waited_CountsFromTheFirstAnswer: a caller that a reply leaves in the queue has
// waited, and so have those behind it.
func TestObserver_Waited_CountsFromTheFirstAnswer(t *testing.T) {
	observed(t, Settings{}, 4, time.Second, func(ctx context.Context, f *fixture, l *fake, o *events) {
		var callers sync.WaitGroup
		wait := func(ctx context.Context, permits int64, timeout time.Duration) {
			callers.Go(func() { _, _ = l.TryAcquireWithin(ctx, permits, timeout) })
			synctest.Wait()
		}
		// waited returns how long the requests for so many permits waited, and took.
		waited := func(permits int64) (all [][2]time.Duration) {
			for _, d := range o.decisions {
				if d.Permits == permits {
					all = append(all, [2]time.Duration{d.Waited, d.Took})
				}
			}
			return all
		}
		o.all()

		wait(ctx, 2, 0) // with a call of its own
		time.Sleep(trip / 2)
		wait(ctx, 1, 0) // while that is under way
		callers.Wait()
		assert.Equal(f, [][2]time.Duration{{0, trip}}, waited(2))
		assert.Equal(f, [][2]time.Duration{{0, 3 * trip / 2}}, waited(1))
		wait(ctx, 3, time.Second/2) // refused by the first answer
		callers.Wait()
		assert.Equal(f, [][2]time.Duration{{0, trip}}, waited(3))
		leaves, leave := context.WithTimeout(ctx, trip/2)
		defer leave()
		wait(leaves, 1, 0) // leaves before the first answer
		callers.Wait()
		assert.Equal(f, [2]time.Duration{0, trip / 2}, waited(1)[1])
		time.Sleep(trip)
		o.all()

		wait(ctx, 4, 0) // stays queued
		time.Sleep(trip * 2)
		wait(ctx, 1, 0)             // behind it
		wait(ctx, 2, time.Second/2) // refused there
		gone, goes := context.WithCancel(ctx)
		wait(gone, 3, 0) // leaves from there
		time.Sleep(5 * trip)
		goes()
		callers.Wait()
		require.Len(f, o.decisions, 4)
		for _, d := range o.decisions {
			assert.Positive(f, d.Waited, "%+v", d)
			assert.Equal(f, d.Took, d.Waited, "%+v", d)
		}
		time.Sleep(5 * time.Second)
		f.RequireTrue(l.TryAcquire(ctx, 3))
		o.all()

		wait(ctx, 2, 0) // stays queued
		time.Sleep(trip * 2)
		for sent := f.Sent.Load(); f.Sent.Load() == sent; { // until it is asked for again
			time.Sleep(time.Millisecond)
		}
		wait(ctx, 1, 0) // behind it for the rest of that call, and served by the next one
		callers.Wait()
		require.Len(f, waited(1), 1)
		assert.Positive(f, waited(1)[0][0])
		assert.Less(f, waited(1)[0][1], 3*trip)
	})
}

func TestObserver_NamesOfOneLimiter_CallHasTheNameOfItsCaller(t *testing.T) {
	for _, way := range ways {
		runWithServer(t, way.name, func(t *testing.T, f *fixture) {
			var mu sync.Mutex
			reported := make(map[string]any)
			g := New(Settings{Redis: f.Conn, Observer: &Observer{RedisCall: func(ctx context.Context, c RedisCallInfo) {
				mu.Lock()
				defer mu.Unlock()
				reported[c.Limiter.Name] = ctx.Value(callerKey{})
			}}})
			f.Latency.Store(int64(trip))
			var callers sync.WaitGroup
			for _, name := range []string{"a", "b", "c", "d"} { // two calls may be in flight, so that a goroutine sends several
				l := open(g, "limiter", 1000, time.Hour)
				l.Name = name
				callers.Go(func() { assert.NoError(t, way.call(context.WithValue(t.Context(), callerKey{}, name), l, 1)) })
				synctest.Wait()
			}
			callers.Wait()
			assert.Greater(t, len(reported), 1)
			for name, caller := range reported {
				assert.Equal(t, name, caller)
			}
		})
	}
}
