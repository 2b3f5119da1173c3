package engine

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestTryAcquire_CallsInFlight_CallersShareTheNext: each caller gets the answer of its place.
func TestTryAcquire_CallsInFlight_CallersShareTheNext(t *testing.T) {
	withServer(t, func(f *fixture) {
		l := f.limiter(100, time.Minute)
		other := open(l.Engine, "limiter", 100, time.Minute)
		before := f.Scripts.Load()
		f.Latency.Store(int64(10 * time.Millisecond))
		answers, errs := redistest.Crowd(150, func(i int) (Result, error) {
			if i%2 == 0 {
				return other.Take(f.Context(), 1)
			}
			return l.Take(f.Context(), 1)
		})
		for i := range answers {
			require.NoError(f, errs[i])
			assert.Equal(f, i < 100, answers[i].Allowed, "caller %d", i)
			assert.EqualValues(f, max(0, 99-i), answers[i].Remaining, "caller %d", i)
			assert.EqualValues(f, 100, answers[i].Limit)
		}
		assert.EqualValues(f, 3, f.Scripts.Load()-before, "script calls: two at once, and one for all other callers")
		f.idle(l)
	})
}

// TestTryAcquire_CallFails_EachCallerGetsItsError: the next call succeeds.
func TestTryAcquire_CallFails_EachCallerGetsItsError(t *testing.T) {
	withServer(t, func(f *fixture) {
		l := f.limiter(100, time.Minute)
		f.Latency.Store(int64(10 * time.Millisecond))
		f.fail("LOADING Redis is loading the dataset in memory")
		_, errs := redistest.Crowd(20, func(int) (Result, error) { return l.Take(f.Context(), 1) })
		for _, err := range errs {
			assert.ErrorContains(f, err, "LOADING")
		}
		f.fail("")
		f.Take(l, 100)
		f.idle(l)
	})
}

func TestTryAcquire_CallOfACaller_AnswersItBeforeTheNextCall(t *testing.T) {
	withServer(t, func(f *fixture) {
		l := f.limiter(100, time.Hour)
		f.Latency.Store(int64(10 * time.Millisecond))
		start := time.Now()
		took := make([]time.Duration, 5)
		var callers sync.WaitGroup
		for i := range took {
			callers.Go(func() {
				_, err := l.TryAcquire(context.Background(), 1)
				assert.NoError(f, err)
				took[i] = time.Since(start)
			})
			synctest.Wait()
		}
		callers.Wait()
		assert.Equal(f, 10*time.Millisecond, took[0])
		for _, later := range took[1:] {
			assert.GreaterOrEqual(f, later, 20*time.Millisecond)
		}
	})
}

// TestBatch_Full_LeavesBeforeLaterOnes: a caller that arrives later may dispatch a call.
func TestBatch_Full_LeavesBeforeLaterOnes(t *testing.T) {
	withServer(t, func(f *fixture) {
		l := f.limiter(MaxPermits, time.Hour)
		f.Latency.Store(int64(10 * time.Millisecond))
		var callers sync.WaitGroup
		ask := func(permits int64) {
			callers.Go(func() {
				ok, err := l.TryAcquire(context.Background(), permits)
				assert.NoError(f, err)
				assert.Equal(f, permits < MaxPermits, ok, "%d permits", permits)
			})
			synctest.Wait()
		}
		ask(1)
		ask(1)
		for range 4 { // each alone in its batch
			ask(MaxPermits)
		}
		pass(15 * time.Millisecond) // one call was slow, so more may be in flight
		for range 10 {
			ask(2)
		}
		callers.Wait()
		f.Latency.Store(0)
		assert.EqualValues(f, MaxPermits-22, f.free(l))
	})
}
