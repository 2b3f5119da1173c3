package engine

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
)

// events are the calls of an Observer.
type events struct {
	mu        sync.Mutex
	decisions []Decision
	calls     []Call
	alone     atomic.Int64 // calls that a goroutine without a caller reported
	waiting   []Waiting
}

// observer returns an Observer that records its calls. It requires the contexts of the callers.
func (o *events) observer(t testing.TB) *Observer {
	return &Observer{
		Decision: func(ctx context.Context, d Decision) {
			o.mu.Lock()
			defer o.mu.Unlock()
			assert.NotNil(t, ctx.Value(callerKey{}), "the context is the caller's")
			o.decisions = append(o.decisions, d)
		},
		RedisCall: func(ctx context.Context, c Call) {
			o.mu.Lock()
			defer o.mu.Unlock()
			if ctx.Value(callerKey{}) == nil {
				o.alone.Add(1)
			}
			c.began = time.Time{}
			o.calls = append(o.calls, c)
		},
		Waiting: func(ctx context.Context, w Waiting) {
			o.mu.Lock()
			defer o.mu.Unlock()
			assert.NotNil(t, ctx.Value(callerKey{}), "the context is the caller's")
			o.waiting = append(o.waiting, w)
		},
	}
}

// all returns the calls since it was last called.
func (o *events) all() (decisions []Decision, calls []Call, waiting []Waiting) {
	o.mu.Lock()
	defer o.mu.Unlock()
	decisions, calls, waiting = o.decisions, o.calls, o.waiting
	o.decisions, o.calls, o.waiting = nil, nil, nil
	return decisions, calls, waiting
}

const trip = 10 * time.Millisecond

// observed runs a test with an observed limiter, on a link of 10 ms.
func observed(t *testing.T, s Settings, limit int64, every time.Duration,
	test func(ctx context.Context, f *fixture, l *fake, o *events)) {
	withServer(t, func(t *testing.T, f *fixture) {
		o := new(events)
		s.Observer = o.observer(t)
		l := f.open(s, limit, every)
		f.Latency.Store(int64(trip))
		test(context.WithValue(t.Context(), callerKey{}, 1), f, l, o)
		time.Sleep(time.Minute)
		synctest.Wait()
		f.idle(l)
	})
}

// TestObserver_Decisions_AreEachReportedOnce: with the call to Redis.
func TestObserver_Decisions_AreEachReportedOnce(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			observed(t, Settings{}, 10, time.Hour, func(ctx context.Context, f *fixture, l *fake, o *events) {
				// only requires one decision since, and one call to Redis, if its caller has waited for it.
				only := func(want Decision, failed error) {
					f.Helper()
					want.Limiter, want.From = &l.Limiter, FromRedis
					decisions, calls, waiting := o.all()
					assert.Equal(f, []Decision{want}, decisions)
					if want.Took == trip {
						call := Call{Limiter: &l.Limiter, Requests: 1, Permits: want.Permits, Took: trip, Err: failed}
						assert.Equal(f, []Call{call}, calls)
					} else {
						assert.Empty(f, calls)
					}
					if way.waits {
						assert.Equal(f, []Waiting{
							{Limiter: &l.Limiter, Change: 1, Length: 1}, {Limiter: &l.Limiter, Change: -1},
						}, waiting)
					} else {
						assert.Empty(f, waiting)
					}
				}
				require.NoError(f, way.call(ctx, l, 3))
				only(Decision{Permits: 3, Granted: true, Took: trip}, nil)
				if way.denied {
					require.NoError(f, way.call(ctx, l, 8))
					only(Decision{Permits: 8, Took: trip}, nil)
				}
				err := way.call(ctx, l, 11)
				require.Equal(f, aboveLimit{11, 10}, err)
				only(Decision{Permits: 11, Took: trip, Err: err}, nil)

				// The context ends while the request is at Redis: a goroutine without a caller
				// reports that call.
				leaves, leave := context.WithTimeout(ctx, trip/2)
				defer leave()
				err = way.call(leaves, l, 1)
				require.ErrorIs(f, err, context.DeadlineExceeded)
				only(Decision{Permits: 1, Took: trip / 2, Err: err}, nil)
				time.Sleep(time.Second)
				assert.EqualValues(f, 1, o.alone.Load())
				_, calls, _ := o.all()
				assert.Equal(f, []Call{{Limiter: &l.Limiter, Requests: 1, Permits: 1, Took: trip}}, calls)

				f.change(l, func(s *state) { s.deleted = true })
				err = way.call(ctx, l, 2)
				require.ErrorContains(f, err, "NOTSET")
				only(Decision{Permits: 2, Took: trip, Err: err}, err)
			})
		})
	}
}

func TestObserver_Source_NamesRedisOrMemory(t *testing.T) {
	observed(t, Settings{Denials: time.Hour}, 10, time.Hour, func(ctx context.Context, f *fixture, l *fake, o *events) {
		for range 3 {
			_, err := l.TryAcquire(ctx, 6)
			require.NoError(f, err)
			time.Sleep(time.Second)
		}
		for _, permits := range []int64{6, 1} {
			_, err := l.TryAcquireWithin(ctx, permits, time.Second)
			require.NoError(f, err)
		}
		decisions, _, _ := o.all()
		var sources []Source
		for _, d := range decisions {
			sources = append(sources, d.From)
		}
		assert.Equal(f, []Source{
			FromRedis, FromRedis, FromMemory,
			FromMemory, FromRedis,
		}, sources)
	})
}

// TestObserver_ManyCallersAndLeases_SourcesMatchTheCalls: each caller that Redis decided on was in
// a call.
func TestObserver_ManyCallersAndLeases_SourcesMatchTheCalls(t *testing.T) {
	leasing := Settings{Lease: shortLease}
	observed(t, leasing, 20_000, time.Second, func(ctx context.Context, f *fixture, l *fake, o *events) {
		f.Latency.Store(int64(500 * time.Microsecond))
		random := rand.New(rand.NewPCG(7, 8))
		var callers sync.WaitGroup
		for range 4000 {
			permits, waits := 1+random.Int64N(3), random.IntN(3) == 0
			callers.Go(func() {
				if waits {
					assert.NoError(f, l.Acquire(ctx, permits))
				} else {
					_, err := l.TryAcquire(ctx, permits)
					assert.NoError(f, err)
				}
			})
			if random.IntN(3) == 0 {
				time.Sleep(time.Duration(random.IntN(100)) * time.Microsecond)
			}
		}
		callers.Wait()
		time.Sleep(time.Second)
		assert.Positive(f, o.alone.Load(), "calls that fetched a lease alone")
		decisions, calls, waiting := o.all()
		require.Len(f, decisions, 4000)
		by, inLine, carried, leased := make(map[Source]int), 0, 0, int64(0)
		for _, d := range decisions {
			by[d.From]++
			if d.From == FromLease {
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
		assert.Greater(f, by[FromLease], 1000)
		assert.GreaterOrEqual(f, leased, int64(0))
		assert.Positive(f, inLine)
		assert.Less(f, len(waiting), 400, "a caller with a lease does not wait")
		again := carried - by[FromRedis] // requests that a later call or a lease served
		assert.GreaterOrEqual(f, again, 0)
		assert.Less(f, again, 100)
	})
}
