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
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(100, time.Minute)
		other := open(l.Engine, "limiter", 100, time.Minute)
		before := f.Scripts.Load()
		f.Latency.Store(int64(10 * time.Millisecond))
		answers, errs := redistest.Crowd(150, func(i int) (Result, error) {
			if i%2 == 0 {
				return other.Take(t.Context(), 1)
			}
			return l.Take(t.Context(), 1)
		})
		for i := range answers {
			require.NoError(t, errs[i])
			assert.Equal(t, i < 100, answers[i].Allowed, "caller %d", i)
			assert.EqualValues(t, max(0, 99-i), answers[i].Remaining, "caller %d", i)
			assert.EqualValues(t, 100, answers[i].Limit)
		}
		assert.EqualValues(t, 3, f.Scripts.Load()-before, "script calls: two at once, and one for all other callers")
		f.idle(l)
	})
}

func TestTryAcquire_CallOfACaller_AnswersItBeforeTheNextCall(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(100, time.Hour)
		f.Latency.Store(int64(10 * time.Millisecond))
		start := time.Now()
		took := make([]time.Duration, 5)
		var callers sync.WaitGroup
		for i := range took {
			callers.Go(func() {
				_, err := l.TryAcquire(context.Background(), 1)
				assert.NoError(t, err)
				took[i] = time.Since(start)
			})
			synctest.Wait()
		}
		callers.Wait()
		assert.Equal(t, 10*time.Millisecond, took[0])
		for _, later := range took[1:] {
			assert.GreaterOrEqual(t, later, 20*time.Millisecond)
		}
	})
}

// TestBatch_Full_LeavesBeforeLaterOnes: a caller that arrives later may dispatch a call.
func TestBatch_Full_LeavesBeforeLaterOnes(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(MaxPermits, time.Hour)
		f.Latency.Store(int64(10 * time.Millisecond))
		var callers sync.WaitGroup
		ask := func(permits int64) {
			callers.Go(func() {
				ok, err := l.TryAcquire(context.Background(), permits)
				assert.NoError(t, err)
				assert.Equal(t, permits < MaxPermits, ok, "%d permits", permits)
			})
			synctest.Wait()
		}
		ask(1)
		ask(1)
		for range 4 { // each alone in its batch
			ask(MaxPermits)
		}
		time.Sleep(15 * time.Millisecond) // one call was slow, so more may be in flight
		for range 10 {
			ask(2)
		}
		callers.Wait()
		f.Latency.Store(0)
		assert.EqualValues(t, MaxPermits-22, f.free(l))
	})
}
