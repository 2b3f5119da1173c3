package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// Waiting callers wait in Acquire for a limiter with few permits.
const (
	waitingCallers = 500
	waitingApart   = 2 * time.Millisecond // between one caller and the next, so that their order is known on a busy machine too
	// A benchmark ends when all callers were served once, which takes 10 s at the rate of the limit if
	// no caller is overtaken, or after this time.
	waitingLongest = 12 * time.Second
)

var waitingLimit = limit{50, time.Second}

// permitTime is the time between two permits. A caller that is served earlier than a previous one
// by so much has overtaken it. If the difference is smaller, the same call may have granted both,
// and the later caller was woken first.
const permitTime = 20 * time.Millisecond

// waiters are the libraries whose callers can wait.
var waiters = map[string]func(b testing.TB, name string) (acquire func(context.Context) error){
	ours: func(b testing.TB, name string) func(context.Context) error {
		limiter := rratelimiter.New(dial(b, shared(b).addr)).Limiter(name)
		return func(ctx context.Context) error { return limiter.Acquire(ctx, 1) }
	},
	script: func(b testing.TB, name string) func(context.Context) error {
		captured, redis := redissonScript(b), dial(b, shared(b).addr)
		keys := captured.keysOf(name)
		return func(ctx context.Context) error { return captured.wait(ctx, redis, keys) }
	},
	"redisson-sync": func(b testing.TB, name string) func(context.Context) error {
		limiter := redisson(b).Limiter(name)
		return func(ctx context.Context) error { return limiter.Acquire(ctx, 1) }
	},
}

// wait does as Redisson does: it sleeps for the time that the script replied, and calls again.
func (s *acquireScript) wait(ctx context.Context, redis rueidis.Client, keys []string) error {
	for {
		granted, after, err := s.take(ctx, redis, keys, 1, time.Now())
		if granted || err != nil {
			return err
		}
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// BenchmarkWaiting has callers that queue again as soon as they are served, so that the length of
// the queue is constant. The permits that are taken at the start return one by one, or all at once.
func BenchmarkWaiting(b *testing.B) {
	for returning, apart := range map[string]time.Duration{"one-by-one": permitTime, "all-at-once": 0} {
		keys := []string{ours, script, "redisson-sync"}
		for _, i := range rand.Perm(len(keys)) {
			b.Run("permits="+returning+"/library="+keys[i], func(b *testing.B) {
				for b.Loop() {
					waiting(b, keys[i], apart)
				}
			})
		}
	}
}

func waiting(b *testing.B, key string, apart time.Duration) {
	redis := shared(b)
	redis.clear(b)
	name := fmt.Sprintf("waiting-%d", rand.Int()) // no callers of an earlier run meet it
	acquire := waiters[key](b, name)
	takeAll(b, redis, name, apart)
	before := redis.usage(b)

	// Without a deadline: if a deadline cannot be met, this library would answer at once.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	start := time.Now()
	first := make([]time.Time, waitingCallers) // when each was served for the first time
	errs := make([]error, waitingCallers)
	var granted atomic.Int64
	var waiting, unserved sync.WaitGroup
	unserved.Add(waitingCallers)
	for i := range waitingCallers {
		waiting.Go(func() {
			for errs[i] == nil {
				if errs[i] = acquire(ctx); errs[i] == nil {
					granted.Add(1)
					if first[i].IsZero() {
						first[i] = time.Now()
						unserved.Done()
					}
				}
			}
			if first[i].IsZero() {
				unserved.Done()
			}
		})
		time.Sleep(waitingApart)
	}
	timer := time.AfterFunc(waitingLongest, cancel)
	defer timer.Stop()
	unserved.Wait()
	took, count := time.Since(start), granted.Load()
	used := redis.usage(b).minus(before)
	cancel()
	waiting.Wait()
	for _, err := range errs {
		require.ErrorIs(b, err, context.Canceled)
	}
	// Callers in Java continue to wait, and end when the limiter no longer exists.
	redis.clear(b)
	time.Sleep(waitingLimit.interval + waitingLimit.interval/2)

	overtaken, unservedCallers, err := checkOrder(first, took, count)
	require.NoError(b, err)
	if key == ours {
		require.Zero(b, overtaken, "callers were overtaken")
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(used.scripts/float64(count), "calls/grant")
	b.ReportMetric(float64(overtaken), "overtaken")
	b.ReportMetric(float64(unservedCallers), "unserved")
}

// checkOrder returns the number of callers that were served after one that came later, and of those
// that were not served at all.
func checkOrder(first []time.Time, took time.Duration, granted int64) (overtaken, unserved int, err error) {
	var earliest time.Time // of the callers that came later
	for _, at := range slices.Backward(first) {
		switch {
		case at.IsZero():
			unserved++
			overtaken++
			continue
		case !earliest.IsZero() && at.Sub(earliest) >= permitTime:
			overtaken++
		}
		if earliest.IsZero() || at.Before(earliest) {
			earliest = at
		}
	}
	// All permits were taken at first, so they return during the first window.
	if most := (int64(took/waitingLimit.interval) + 1) * waitingLimit.permits; granted > most {
		return 0, 0, errors.New(fmt.Sprint(granted, " permits were granted in ", took, ", the rate allows ", most))
	}
	return overtaken, unserved, nil
}

// takeAll sets up the limiter with all permits taken, the oldest about to return.
func takeAll(b testing.TB, redis *server, name string, apart time.Duration) {
	setRates(b, redis.redis, load{names: []string{name}, limit: waitingLimit})
	newest := time.Now()
	var grants []preparedGrant
	for i := range waitingLimit.permits {
		grants = append(grants, preparedGrant{newest.Add(-time.Duration(i) * apart), 1})
	}
	redis.prepare(b, name, 0, grants)
}
