package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// TestLoneCall_OtherCallersOfItsLimiter_ShareACall: only the first caller has a call of its own.
func TestLoneCall_OtherCallersOfItsLimiter_ShareACall(t *testing.T) {
	withEngine(t, Settings{}, func(t *testing.T, f *fixture, g *Engine) {
		const callers = 50
		l := open(g, "limiter", callers-1, time.Minute)
		answers, errs := redistest.Crowd(callers, func(int) (bool, error) { return l.TryAcquire(t.Context(), 1) })
		require.NoError(t, errors.Join(errs...))
		assert.Equal(t, callers-1, slices.Index(answers, false))
		assert.LessOrEqual(t, f.Scripts.Load(), int64(1+fastCalls+1))
		assert.True(t, g.idle())
	})
}

// TestLoneCall_CallerLeaves_PermitReturns: and its call is reported. A script that needs another call does
// not get it.
func TestLoneCall_CallerLeaves_PermitReturns(t *testing.T) {
	for more, failed := range []string{"<nil>", "limiter: context canceled"} {
		var calls atomic.Int64
		observer := &Observer{RedisCall: func(_ context.Context, c Call) {
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

// TestLoneCall_ScriptNeedsMoreCalls_Continues: it does not begin again.
func TestLoneCall_ScriptNeedsMoreCalls_Continues(t *testing.T) {
	withEngine(t, Settings{}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 5, time.Minute)
		l.Protocol = paged{l, 3}
		before := f.Scripts.Load()
		require.NoError(t, redistest.Err(l.TryAcquire(t.Context(), 1)))
		assert.EqualValues(t, 4, f.Scripts.Load()-before)
	})
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
		assert.Zero(t, g.registry.active.of(l.ID).Load()&^crowdedBit)
		f.RequireGranted(l, 1)
	})
}

// TestLoneCall_SlotMoves_CallIsRepeated: a proxy may hide a cluster. The next call is not dated by the
// call that failed.
func TestLoneCall_SlotMoves_CallIsRepeated(t *testing.T) {
	var took atomic.Int64
	observer := &Observer{RedisCall: func(_ context.Context, c Call) { took.Store(int64(c.Took)) }}
	withEngine(t, Settings{Observer: observer}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 5, time.Minute)
		f.moveSlot()
		f.RequireGranted(l, 1)
		assert.EqualValues(t, 4, f.free(l))
		f.RequireGranted(l, 1)
		assert.Equal(t, 10*time.Millisecond, time.Duration(took.Load()))
	})
}

// TestLoneCall_DenialCache_RemembersItsDenial: a grant ends it, and so does a change during its call.
func TestLoneCall_DenialCache_RemembersItsDenial(t *testing.T) {
	withEngine(t, Settings{Denials: time.Hour}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 2, time.Minute)
		from := func() Source {
			result, err := l.Try(t.Context(), Ask{Permits: 2})
			require.NoError(t, err)
			assert.False(t, result.Allowed)
			return result.From
		}
		f.RequireGranted(l, 1)
		assert.Equal(t, FromRedis, from())
		assert.Equal(t, FromMemory, from())
		f.RequireGranted(l, 1)
		time.AfterFunc(5*time.Millisecond, func() { g.invalidate(l.DependsOn) })
		assert.Equal(t, FromRedis, from(), "after a grant")
		assert.Equal(t, FromRedis, from(), "after a change")
		assert.Equal(t, FromMemory, from())
	})
}

// TestLoneCall_Prefetch_IsBroughtByASharedCall: a lone one has none.
func TestLoneCall_Prefetch_IsBroughtByASharedCall(t *testing.T) {
	withEngine(t, Settings{Prefetch: time.Second}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 1000, time.Minute)
		for range 20 {
			f.RequireGranted(l, 1)
		}
		assert.Equal(t, FromPrefetch, redistest.Result(t, l.Take, 1).From)
		require.NoError(t, g.Flush(t.Context()))
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
					l.Engine.registry.active.of(l.ID).Or(crowdedBit)
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
