package engine

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestClock_ClockPanics_PanicsInItsCaller if the call runs on the caller's goroutine.
func TestClock_ClockPanics_PanicsInItsCaller(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		var broken atomic.Bool
		l := f.open(Settings{Now: func() time.Time {
			if broken.Load() {
				panic("no time")
			}
			return time.Now()
		}}, 10, time.Hour)
		broken.Store(true)
		for range 5 { // more often than calls may be in flight
			assert.PanicsWithValue(t, "no time", func() { _, _ = l.TryAcquire(context.Background(), 1) })
		}
		broken.Store(false)
		f.RequireGranted(l, 10)
		synctest.Wait()
		f.idle(l)
	})
}

// TestClock_ClockEndsItsGoroutine_LeavesNoCallerWaiting, as a failed assertion in a clock does.
func TestClock_ClockEndsItsGoroutine_LeavesNoCallerWaiting(t *testing.T) {
	calls := append([]way{{name: "Release", call: func(ctx context.Context, l *fake, n int64) error {
		return l.Release(ctx, n)
	}}}, ways...)
	for _, ask := range calls {
		for kind, cancellable := range map[string]bool{"": false, ", with a context that can end": true} {
			runWithServer(t, ask.name+kind, func(t *testing.T, f *fixture) {
				var ends atomic.Int64
				l := f.open(Settings{Now: func() time.Time {
					if ends.Add(-1) >= 0 {
						runtime.Goexit()
					}
					return time.Now()
				}}, 1000, time.Hour)
				f.RequireGranted(l, 1)
				ctx := context.Background()
				if cancellable {
					ctx = t.Context()
				}
				f.Latency.Store(int64(10 * time.Millisecond))
				ends.Store(3)
				var callers sync.WaitGroup
				for range 50 {
					callers.Go(func() { _ = ask.call(ctx, l, 1) })
				}
				callers.Wait()
				ends.Store(0)
				require.NoError(t, ask.call(ctx, l, 1))
				synctest.Wait()
				f.idle(l)
			})
		}
	}
}

// TestServerTime_SlowLink_PermitsReturnInTime: the script reads the time after the call has
// left, so permits return no earlier than it reports.
func TestServerTime_SlowLink_PermitsReturnInTime(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.open(Settings{ServerTime: true}, 10, 10*time.Second)
		f.RequireGranted(l, 10)
		time.Sleep(100 * time.Millisecond)
		before := f.Scripts.Load()
		f.Latency.Store(int64(500 * time.Millisecond))
		time.AfterFunc(700*time.Millisecond, func() { f.Latency.Store(0) })
		require.NoError(t, l.Acquire(t.Context(), 1))
		assert.EqualValues(t, 2, f.Scripts.Load()-before, "calls: one that is denied, and one in time")
	})
}

// TestClock_ClockEndsAnyOfItsReadings_LeavesNoCallerWaiting: a denial that is remembered reads
// the clock too.
func TestClock_ClockEndsAnyOfItsReadings_LeavesNoCallerWaiting(t *testing.T) {
	for ending := range int64(6) {
		withServer(t, func(t *testing.T, f *fixture) {
			var reading atomic.Int64
			clock := func() time.Time {
				if reading.Add(1) == ending+1 {
					runtime.Goexit()
				}
				return time.Now()
			}
			reading.Store(100)
			l := f.open(Settings{Now: clock, Denials: time.Second}, 1, time.Hour)
			f.RequireGranted(l, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			f.Latency.Store(int64(10 * time.Millisecond))
			reading.Store(0)
			var callers sync.WaitGroup
			for i := range 20 {
				callers.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					_, err := l.TryAcquire(ctx, 1)
					assert.NotErrorIs(t, err, context.DeadlineExceeded)
				})
			}
			callers.Wait()
			time.Sleep(time.Second)
			f.idle(l)
		})
	}
}
