package engine_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// events are the calls of an Observer.
type events struct {
	mu        sync.Mutex
	decisions []rratelimiter.DecisionInfo
	calls     []rratelimiter.RedisCallInfo
	alone     atomic.Int64 // calls that a goroutine without a caller reported
	waiting   []rratelimiter.WaitingInfo
}

type callerKey struct{}

// observer returns an Observer that records its calls. It requires the contexts of the callers.
func (o *events) observer(t testing.TB) *rratelimiter.Observer {
	return &rratelimiter.Observer{
		Decision: func(ctx context.Context, d rratelimiter.DecisionInfo) {
			o.mu.Lock()
			defer o.mu.Unlock()
			assert.NotNil(t, ctx.Value(callerKey{}), "the context is the caller's")
			o.decisions = append(o.decisions, d)
		},
		RedisCall: func(ctx context.Context, c rratelimiter.RedisCallInfo) {
			o.mu.Lock()
			defer o.mu.Unlock()
			if ctx.Value(callerKey{}) == nil {
				o.alone.Add(1)
			}
			o.calls = append(o.calls, c)
		},
		Waiting: func(ctx context.Context, w rratelimiter.WaitingInfo) {
			o.mu.Lock()
			defer o.mu.Unlock()
			assert.NotNil(t, ctx.Value(callerKey{}), "the context is the caller's")
			o.waiting = append(o.waiting, w)
		},
	}
}

// all returns the calls since it was last called.
func (o *events) all() (
	decisions []rratelimiter.DecisionInfo, calls []rratelimiter.RedisCallInfo, waiting []rratelimiter.WaitingInfo,
) {
	o.mu.Lock()
	defer o.mu.Unlock()
	decisions, calls, waiting = o.decisions, o.calls, o.waiting
	o.decisions, o.calls, o.waiting = nil, nil, nil
	return decisions, calls, waiting
}

// observed runs a test with an observed limiter, on a link of 10 ms.
func observed(
	t *testing.T, rate rratelimiter.Rate,
	test func(ctx context.Context, b *fixture, l *rratelimiter.Limiter, o *events), opts ...rratelimiter.Option,
) {
	withRedis(t, func(b *fixture) {
		o := new(events)
		l := b.limiter(rate, append(opts, rratelimiter.WithObserver(o.observer(b)))...)
		b.Latency.Store(int64(10 * time.Millisecond))
		test(context.WithValue(b.Context(), callerKey{}, 1), b, l, o)
		pass(time.Minute)
		synctest.Wait()
		b.idle(b.client)
	})
}

const trip = 10 * time.Millisecond

// call is the report of a call to Redis for one request.
func call(permits int64, took time.Duration, err error) []rratelimiter.RedisCallInfo {
	return []rratelimiter.RedisCallInfo{
		{Name: "limiter", Policy: "redisson", Requests: 1, Permits: permits, Took: took, Err: err},
	}
}

// TestObserver_Decisions_AreEachReportedOnce: with the call to Redis.
func TestObserver_Decisions_AreEachReportedOnce(t *testing.T) {
	for _, ask := range asks {
		t.Run(ask.name, func(t *testing.T) {
			rate := rratelimiter.Rate{Permits: 10, Interval: time.Hour}
			observed(t, rate, func(ctx context.Context, b *fixture, l *rratelimiter.Limiter, o *events) {
				// only requires one decision since, and one call to Redis if it took any time.
				only := func(want rratelimiter.DecisionInfo, took time.Duration, err error) {
					b.Helper()
					want.Name, want.Policy, want.Took = "limiter", "redisson", max(want.Took, took)
					decisions, calls, waiting := o.all()
					assert.Equal(b, []rratelimiter.DecisionInfo{want}, decisions)
					if took > 0 {
						assert.Equal(b, call(want.Permits, took, err), calls)
					} else {
						assert.Empty(b, calls)
					}
					if ask.waits && want.Took > 0 {
						assert.Equal(b, []rratelimiter.WaitingInfo{
							{Name: "limiter", Policy: "redisson", Change: 1, Length: 1},
							{Name: "limiter", Policy: "redisson", Change: -1},
						}, waiting)
					} else {
						assert.Empty(b, waiting)
					}
				}
				require.NoError(b, ask.call(ctx, l, 3))
				only(rratelimiter.DecisionInfo{Permits: 3, Granted: true, Source: rratelimiter.FromRedis}, trip, nil)

				if ask.denied {
					require.NoError(b, ask.call(ctx, l, 8))
					only(rratelimiter.DecisionInfo{Permits: 8, Source: rratelimiter.FromRedis}, trip, nil)
				}
				err := ask.call(ctx, l, 11)
				require.ErrorIs(b, err, rratelimiter.ErrPermitsExceedRate)
				only(rratelimiter.DecisionInfo{Permits: 11, Err: err}, trip, nil)

				err = ask.call(ctx, l, engine.MaxPermits+1)
				require.ErrorIs(b, err, rratelimiter.ErrInvalidPermits)
				only(rratelimiter.DecisionInfo{Permits: engine.MaxPermits + 1, Err: err}, 0, nil)

				// The context ends while the request is at Redis: a goroutine without a caller
				// reports that call.
				leaves, leave := context.WithTimeout(ctx, trip/2)
				defer leave()
				err = ask.call(leaves, l, 1)
				require.ErrorIs(b, err, context.DeadlineExceeded)
				only(rratelimiter.DecisionInfo{Permits: 1, Took: trip / 2, Err: err}, 0, nil)
				pass(second)
				assert.EqualValues(b, 1, o.alone.Load())
				_, calls, _ := o.all()
				assert.Equal(b, call(1, trip, nil), calls)

				// Invalid calls are not reported.
				require.Error(b, ask.call(leaves, l, 1))
				require.Error(b, ask.call(leaves, l, engine.MaxPermits+1))
				require.ErrorIs(b, ask.call(ctx, l, 0), rratelimiter.ErrInvalidPermits)
				require.ErrorIs(b, ask.call(ctx, b.client.Limiter(""), 1), rratelimiter.ErrInvalidName)
				require.ErrorIs(b, ask.call(ctx, b.client.Limiter(""), engine.MaxPermits+1), rratelimiter.ErrInvalidPermits)
				require.ErrorIs(b, ask.call(ctx, new(rratelimiter.Limiter), engine.MaxPermits+1), rratelimiter.ErrInvalidPermits)
				decisions, calls, waiting := o.all()
				assert.Empty(b, decisions)
				assert.Empty(b, calls)
				assert.Empty(b, waiting)

				_, err = l.Delete(ctx)
				require.NoError(b, err)
				err = ask.call(ctx, l, 2)
				require.ErrorIs(b, err, rratelimiter.ErrNotInitialized)
				only(rratelimiter.DecisionInfo{Permits: 2, Err: err}, trip, err)
			})
		})
	}
}

func TestObserver_Source_NamesRedisOrMemory(t *testing.T) {
	rate := rratelimiter.Rate{Permits: 10, Interval: time.Hour}
	observed(t, rate, func(ctx context.Context, b *fixture, l *rratelimiter.Limiter, o *events) {
		for range 3 {
			_, err := l.TryAcquire(ctx, 6)
			require.NoError(b, err)
			pass(second)
		}
		for _, permits := range []int64{6, 1} {
			_, err := l.TryAcquireWithin(ctx, permits, second)
			require.NoError(b, err)
		}
		decisions, _, _ := o.all()
		var sources []rratelimiter.Source
		for _, d := range decisions {
			sources = append(sources, d.Source)
		}
		assert.Equal(b, []rratelimiter.Source{
			rratelimiter.FromRedis, rratelimiter.FromRedis, rratelimiter.FromMemory,
			rratelimiter.FromMemory, rratelimiter.FromRedis,
		}, sources)
	}, rratelimiter.WithDenialCache(time.Hour))
}

// TestObserver_ManyCallersAndLeases_SourcesMatchTheCalls: each caller that Redis decided on was in
// a call.
func TestObserver_ManyCallersAndLeases_SourcesMatchTheCalls(t *testing.T) {
	rate := rratelimiter.Rate{Permits: 20_000, Interval: second}
	observed(t, rate, func(ctx context.Context, b *fixture, l *rratelimiter.Limiter, o *events) {
		b.Latency.Store(int64(500 * time.Microsecond))
		random := rand.New(rand.NewPCG(7, 8))
		var callers sync.WaitGroup
		for range 4000 {
			permits, waits := 1+random.Int64N(3), random.IntN(3) == 0
			callers.Go(func() {
				if waits {
					assert.NoError(b, l.Acquire(ctx, permits))
				} else {
					_, err := l.TryAcquire(ctx, permits)
					assert.NoError(b, err)
				}
			})
			if random.IntN(3) == 0 {
				pass(time.Duration(random.IntN(100)) * time.Microsecond)
			}
		}
		callers.Wait()
		pass(second)
		assert.Positive(b, o.alone.Load(), "calls that fetched a lease alone")
		decisions, calls, waiting := o.all()
		require.Len(b, decisions, 4000)
		by, inLine, carried, leased := make(map[rratelimiter.Source]int), 0, 0, int64(0)
		for _, d := range decisions {
			by[d.Source]++
			if d.Source == rratelimiter.FromLease {
				leased -= d.Permits
				if d.Took > 0 {
					inLine++
				}
			}
		}
		for _, c := range calls {
			carried += c.Requests
			leased += c.Leased
		}
		assert.Greater(b, by[rratelimiter.FromLease], 1000)
		assert.GreaterOrEqual(b, leased, int64(0))
		assert.Positive(b, inLine)
		assert.Less(b, len(waiting), 400, "a caller with a lease does not wait")
		again := carried - by[rratelimiter.FromRedis] // requests that a later call or a lease served
		assert.GreaterOrEqual(b, again, 0)
		assert.Less(b, again, 100)
	}, rratelimiter.WithLease(shortLease))
}
