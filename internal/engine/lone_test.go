package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// withEngine runs a test with an engine. Calls take 10 ms.
func withEngine(t *testing.T, s Settings, test func(t *testing.T, f *fixture, g *Engine)) {
	withServer(t, func(t *testing.T, f *fixture) {
		f.Latency.Store(int64(10 * time.Millisecond))
		s.Redis = f.Conn
		test(t, f, New(s))
	})
}

// TestLoneCall_CallerLeaves_PermitReturns: and its call is reported. A script that needs another call does
// not get it.
func TestLoneCall_CallerLeaves_PermitReturns(t *testing.T) {
	for more, failed := range []string{"<nil>", "limiter: context canceled"} {
		var calls atomic.Int64
		observer := &Observer{RedisCall: func(_ context.Context, c RedisCallInfo) {
			calls.Add(1)
			assert.Equal(t, failed, fmt.Sprint(c.Err))
		}}
		withEngine(t, Settings{Observer: observer}, func(t *testing.T, f *fixture, g *Engine) {
			l := open(g, "limiter", 5, time.Minute)
			l.Protocol = paged{l, more}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			assert.ErrorIs(t, redistest.Err(l.TryAcquire(ctx, 1)), context.DeadlineExceeded)
			time.Sleep(10 * time.Millisecond)
			assert.EqualValues(t, 4+more, f.free(l), "the call was sent")
			time.Sleep(time.Second)
			assert.EqualValues(t, 5, f.free(l))
			assert.EqualValues(t, 1, calls.Load())
		})
	}
}

// TestLoneCall_ReusedState_KeepsNothing: the next call of another limiter has its own answer.
func TestLoneCall_ReusedState_KeepsNothing(t *testing.T) {
	withEngine(t, Settings{}, func(t *testing.T, f *fixture, g *Engine) {
		for i := range 20 {
			l := open(g, fmt.Sprint("limiter:", i), 3, time.Minute)
			for left := 2; left >= -1; left-- {
				result := redistest.Result(t, l.Take, 1)
				assert.Equal(t, left >= 0, result.Allowed)
				assert.EqualValues(t, max(0, left), result.Remaining)
			}
			assert.Zero(t, redistest.Result(t, l.TakeUpTo, 2).Granted)
			assert.ErrorIs(t, redistest.Err(l.TryAcquire(t.Context(), 4)), aboveLimit{4, 3})
			f.fail("OOM")
			assert.ErrorContains(t, redistest.Err(l.TryAcquire(t.Context(), 1)), l.ID+": OOM")
			f.fail("")
			f.RequireDenied(l, 1)
		}
	})
}

// TestLoneCall_ClockPanics_NothingIsLeft: the next call is a lone one again.
func TestLoneCall_ClockPanics_NothingIsLeft(t *testing.T) {
	panics := true
	now := func() time.Time {
		if panics {
			panic("the program's clock")
		}
		return time.Now()
	}
	withEngine(t, Settings{Now: now}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 5, time.Minute)
		assert.Panics(t, func() { _, _ = l.TryAcquire(context.Background(), 1) })
		panics = false
		assert.Zero(t, g.registry.active.counterOf(l.ID).Load()&^crowdedBit)
		f.RequireGranted(l, 1)
	})
}

func TestReceipt_EachWay_RefundsItsGrant(t *testing.T) {
	for _, way := range ways {
		for _, kind := range []string{"shared call", "own call", "prefetch"} {
			runWithServer(t, way.name+", "+kind, func(t *testing.T, f *fixture) {
				prefetched, s := kind == "prefetch", Settings{}
				if prefetched {
					s.Prefetch = time.Second
				}
				l := f.open(s, 100, time.Minute)
				if kind == "shared call" {
					l.Engine.registry.active.counterOf(l.ID).Or(crowdedBit)
				}
				f.CountGranted(l, 20, 0)
				synctest.Wait() // for the next prefetch
				var err error
				var result Result
				ask := Ask{Permits: 1, Detail: true, Receipt: true}
				if way.waits {
					_, err = l.Wait(t.Context(), ask, time.Time{}, &result)
				} else {
					_, err = l.Limiter.Try(t.Context(), ask, &result)
				}
				require.NoError(t, err)
				require.NoError(t, result.Refund(t.Context(), 1))
				assert.Equal(t, prefetched, result.From != FromRedis)
				require.NoError(t, l.Engine.Flush(t.Context()))
				assert.EqualValues(t, 80, f.free(l))
			})
		}
	}
}
