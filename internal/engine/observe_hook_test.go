package engine

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
)

// TestObserver_HookFails_OnlyItsCallerIsAffected: it panics, ends its goroutine or blocks.
func TestObserver_HookFails_OnlyItsCallerIsAffected(t *testing.T) {
	const callers, broken = 20, 2
	for kind, fail := range map[string]func(){
		"panics": func() { panic("no hook") }, "ends": runtime.Goexit, "blocks": func() { time.Sleep(5 * time.Second) },
	} {
		for _, hook := range []string{"Decision", "RedisCall", "Waiting", "Waiting ends"} {
			for _, ask := range ways {
				runWithServer(t, kind+" "+hook+" "+ask.name, func(t *testing.T, f *fixture) {
					var fails, length, served atomic.Int64
					called := func(name string) {
						if name == hook && fails.Add(-1) >= 0 {
							fail()
						}
					}
					l := f.open(Settings{Observer: &Observer{
						Decision:  func(context.Context, Decision) { called("Decision") },
						RedisCall: func(context.Context, Call) { called("RedisCall") },
						Waiting: func(_ context.Context, w Waiting) {
							length.Add(int64(w.Change))
							called(map[int]string{1: "Waiting", -1: "Waiting ends"}[w.Change])
						},
					}}, 1000, time.Hour)
					f.Latency.Store(int64(trip))
					call := func(ctx context.Context) {
						defer func() { _ = recover() }()
						start := time.Now()
						assert.NoError(t, ask.call(ctx, l, 1))
						if time.Since(start) <= 5*trip {
							served.Add(1)
						}
					}
					want := int64(callers - broken)
					if !ask.waits && strings.HasPrefix(hook, "Waiting") {
						want = callers
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
					assert.Equal(t, want, served.Load())
					assert.Zero(t, length.Load())
					fails.Store(0)
					call(t.Context())
					assert.Equal(t, want+1, served.Load())
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
				RedisCall: func(ctx context.Context, _ Call) {
					if ctx.Value(callerKey{}) == nil {
						alone.Add(1)
						fail()
					}
				},
			}}, 1, time.Second)
			f.Latency.Store(int64(trip))
			caller := context.WithValue(t.Context(), callerKey{}, 1)
			leaves, leave := context.WithTimeout(caller, trip/2)
			defer leave()
			_, err := l.TryAcquire(leaves, 1)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			time.Sleep(time.Second)
			assert.EqualValues(t, 1, alone.Load())
			start := time.Now()
			ok, err := l.TryAcquire(caller, 1)
			require.NoError(t, err)
			require.True(t, ok)
			for range 3 {
				require.NoError(t, l.Acquire(caller, 1))
			}
			assert.InDelta(t, 3*time.Second, time.Since(start), float64(10*trip))
			assert.Greater(t, alone.Load(), int64(1), "a call that was denied has no caller")
		})
	}
}
