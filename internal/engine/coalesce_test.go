package engine_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestTryAcquire_CallsInFlight_CallersShareTheNext: each caller gets the answer of its place.
func TestTryAcquire_CallsInFlight_CallersShareTheNext(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 100, Interval: time.Minute})
		other := b.client.Limiter("limiter")
		before := b.Scripts.Load()
		b.Latency.Store(int64(10 * time.Millisecond))
		answers, errs := redistest.Crowd(150, func(i int) (rratelimiter.Decision, error) {
			if i%2 == 0 {
				return other.Take(b.Context(), 1)
			}
			return l.Take(b.Context(), 1)
		})
		for i := range answers {
			require.NoError(b, errs[i])
			assert.Equal(b, i < 100, answers[i].Allowed, "caller %d", i)
			assert.EqualValues(b, max(0, 99-i), answers[i].Remaining, "caller %d", i)
			assert.EqualValues(b, 100, answers[i].Limit)
		}
		assert.EqualValues(b, 3, b.Scripts.Load()-before, "script calls: two at once, and one for all other callers")
		members, err := b.Redis.ZMembers("{limiter}:permits")
		require.NoError(b, err)
		assert.LessOrEqual(b, len(members), 3, "the granted requests of a call are one member")
		b.idle(b.client)
	})
}

// TestTryAcquire_CallFails_EachCallerGetsItsError: the next call succeeds.
func TestTryAcquire_CallFails_EachCallerGetsItsError(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 100, Interval: time.Minute})
		b.Latency.Store(int64(10 * time.Millisecond))
		b.Redis.SetError("LOADING Redis is loading the dataset in memory")
		_, errs := redistest.Crowd(20, func(int) (rratelimiter.Decision, error) { return l.Take(b.Context(), 1) })
		for _, err := range errs {
			assert.ErrorContains(b, err, "LOADING")
		}
		b.Redis.SetError("")
		b.Take(l, 100)
		b.idle(b.client)
	})
}

func TestTryAcquire_CallOfACaller_AnswersItBeforeTheNextCall(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: 100, Interval: time.Hour})
		b.Latency.Store(int64(10 * time.Millisecond))
		start := time.Now()
		took := make([]time.Duration, 5)
		var callers sync.WaitGroup
		for i := range took {
			callers.Go(func() {
				_, err := l.TryAcquire(context.Background(), 1)
				assert.NoError(b, err)
				took[i] = time.Since(start)
			})
			synctest.Wait()
		}
		callers.Wait()
		assert.Equal(b, 10*time.Millisecond, took[0])
		for _, later := range took[1:] {
			assert.GreaterOrEqual(b, later, 20*time.Millisecond)
		}
	})
}

// TestBatch_Full_LeavesBeforeLaterOnes: a caller that arrives later may dispatch a call.
func TestBatch_Full_LeavesBeforeLaterOnes(t *testing.T) {
	withRedis(t, func(b *fixture) {
		l := b.limiter(rratelimiter.Rate{Permits: engine.MaxPermits, Interval: time.Hour})
		b.Latency.Store(int64(10 * time.Millisecond))
		var callers sync.WaitGroup
		ask := func(permits int64) {
			callers.Go(func() {
				ok, err := l.TryAcquire(context.Background(), permits)
				assert.NoError(b, err)
				assert.Equal(b, permits < engine.MaxPermits, ok, "%d permits", permits)
			})
			synctest.Wait()
		}
		ask(1)
		ask(1)
		for range 4 { // each alone in its batch
			ask(engine.MaxPermits)
		}
		pass(15 * time.Millisecond) // one call was slow, so more may be in flight
		for range 10 {
			ask(2)
		}
		callers.Wait()
		b.Latency.Store(0)
		b.Free(l, engine.MaxPermits-22)
	})
}
