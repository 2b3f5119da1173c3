package engine

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

// TestClock_ClockEndsItsGoroutine_LeavesNoCallerWaiting: as a failed assertion in a clock does, in
// any of its readings. A denial that is remembered reads the clock too.
func TestClock_ClockEndsItsGoroutine_LeavesNoCallerWaiting(t *testing.T) {
	release := way{name: "Release", call: func(ctx context.Context, l *fake, n int64) error { return l.Release(ctx, n) }}
	for _, ask := range append([]way{release}, ways...) {
		for ending := range int64(12) {
			limit := int64(1000)
			if ending%2 == 0 && !ask.waits { // all are denied
				limit = 1
			}
			runWithServer(t, fmt.Sprint(ask.name, ending), func(t *testing.T, f *fixture) {
				var reading atomic.Int64
				reading.Store(100)
				l := f.open(Settings{Denials: time.Second, Now: func() time.Time {
					if reading.Add(1) == 1+ending/2 {
						runtime.Goexit()
					}
					return time.Now()
				}}, limit, time.Hour)
				f.RequireGranted(l, 1)
				f.Latency.Store(int64(10 * time.Millisecond))
				reading.Store(0)
				var callers sync.WaitGroup
				for i := range 20 {
					ctx := t.Context()
					if i%3 == 0 {
						ctx = context.Background()
					}
					callers.Go(func() {
						time.Sleep(time.Duration(i) * time.Millisecond)
						_ = ask.call(ctx, l, 1)
					})
				}
				callers.Wait()
				reading.Store(100)
				require.NoError(t, ask.call(t.Context(), l, 1))
				time.Sleep(time.Second)
				f.idle(l)
			})
		}
	}
}
