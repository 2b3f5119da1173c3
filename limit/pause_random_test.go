package limit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestPause_ManyClients_NoGrantDuringAPause, and after it no more than the pace, in any order of calls.
// A pause counts from the return of the call that began it, and up to the call that ends it. A lease of
// another Client lasts for its length.
func TestPause_ManyClients_NoGrantDuringAPause(t *testing.T) {
	const lease, latency = 20 * time.Millisecond, time.Millisecond
	for seed := range uint64(redistest.Deep(1, 40)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
				f.Latency.Store(int64(latency))
				var mu sync.Mutex
				var grants []time.Time
				var from, until time.Time // of the pause that surely lasts
				var all sync.WaitGroup
				granted := func(began time.Time) {
					mu.Lock()
					defer mu.Unlock()
					now := time.Now()
					grants = append(grants, now)
					if began.After(from.Add(lease)) && now.Before(until) {
						assert.Fail(t, "granted in a pause", "%v after its begin, %v before its end", now.Sub(from), until.Sub(now))
					}
				}
				random := rand.New(rand.NewPCG(seed, 1))
				for i, opts := range [][]rratelimiter.Option{
					nil, {rratelimiter.WithLease(lease)}, {rratelimiter.WithDenialCache(time.Second)},
				} {
					l := New(rratelimiter.New(f.Conn, opts...), "name", FixedWindow{200, time.Second, false}, Pause{time.Minute})
					own := rand.New(rand.NewPCG(seed, uint64(i)+2))
					all.Go(func() {
						for range redistest.Deep(400, 2000) {
							time.Sleep(time.Duration(own.Int64N(int64(4 * time.Millisecond))))
							began := time.Now()
							ok, err := l.TryAcquire(t.Context(), 1)
							assert.NoError(t, err)
							if ok {
								granted(began)
							}
						}
					})
					for range 5 {
						all.Go(func() {
							for range redistest.Deep(8, 40) {
								ctx, end := context.WithTimeout(t.Context(), 3*time.Second)
								if err := l.Acquire(ctx, 1); err == nil {
									granted(time.Now())
								} else {
									assert.True(t, errors.Is(err, context.DeadlineExceeded), err)
									time.Sleep(100 * time.Millisecond)
								}
								end()
							}
						})
					}
				}
				l := New(rratelimiter.New(f.Conn), "name", FixedWindow{200, time.Second, false}, Pause{time.Minute})
				for range redistest.Deep(4, 12) {
					time.Sleep(time.Duration(random.Int64N(int64(800 * time.Millisecond))))
					d := time.Duration(random.Int64N(int64(time.Second)))
					if random.IntN(4) == 0 {
						d = 0
						mu.Lock()
						until = time.Time{}
						mu.Unlock()
					}
					began := time.Now()
					require.NoError(t, l.Pause(t.Context(), d))
					mu.Lock()
					if end := began.Add(d); d > 0 && end.After(until) {
						if until.Before(began) {
							from = time.Now()
						}
						until = end
					}
					mu.Unlock()
				}
				all.Wait()
				f.Latency.Store(0)
				assert.Greater(t, len(grants), redistest.Deep(80, 300))
			})
		})
	}
}
