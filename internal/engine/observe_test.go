package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

type callerKey struct{}

// events are the calls of an Observer.
type events struct {
	mu        sync.Mutex
	decisions []DecisionInfo
	calls     []RedisCallInfo
	alone     atomic.Int64 // calls that a goroutine without a caller reported
	waiting   []WaitingInfo
}

// observer returns an Observer that records its calls. It requires the contexts of the callers.
func (o *events) observer(t testing.TB) *Observer {
	return &Observer{
		Decision: func(ctx context.Context, d DecisionInfo) {
			o.mu.Lock()
			defer o.mu.Unlock()
			assert.NotNil(t, ctx.Value(callerKey{}), "the context is the caller's")
			o.decisions = append(o.decisions, d)
		},
		RedisCall: func(ctx context.Context, c RedisCallInfo) {
			o.mu.Lock()
			defer o.mu.Unlock()
			if ctx.Value(callerKey{}) == nil {
				o.alone.Add(1)
			}
			c.began = time.Time{}
			o.calls = append(o.calls, c)
		},
		Waiting: func(ctx context.Context, w WaitingInfo) {
			o.mu.Lock()
			defer o.mu.Unlock()
			assert.NotNil(t, ctx.Value(callerKey{}), "the context is the caller's")
			o.waiting = append(o.waiting, w)
		},
	}
}

// all returns the calls since it was last called.
func (o *events) all() (decisions []DecisionInfo, calls []RedisCallInfo, waiting []WaitingInfo) {
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
			observed(t, Settings{}, 10, time.Hour,
				func(ctx context.Context, f *fixture, l *fake, o *events) {
					// only requires one decision since, and one call to Redis, if its caller has waited for it.
					only := func(want DecisionInfo, failed error) {
						f.Helper()
						want.Limiter, want.From = &l.Limiter, FromRedis
						decisions, calls, waiting := o.all()
						assert.Equal(f, []DecisionInfo{want}, decisions)
						if want.Took == trip {
							call := RedisCallInfo{Limiter: &l.Limiter, Requests: 1, Permits: want.Permits, Took: trip, Err: failed}
							assert.Equal(f, []RedisCallInfo{call}, calls)
						} else {
							assert.Empty(f, calls)
						}
						if way.waits {
							assert.Equal(f, []WaitingInfo{
								{Limiter: &l.Limiter, Change: 1}, {Limiter: &l.Limiter, Change: -1},
							}, waiting)
						} else {
							assert.Empty(f, waiting)
						}
					}
					require.NoError(f, way.call(ctx, l, 3))
					only(DecisionInfo{Permits: 3, Granted: true, Took: trip}, nil)
					if way.denied {
						require.NoError(f, way.call(ctx, l, 8))
						only(DecisionInfo{Permits: 8, Took: trip}, nil)
					}
					err := way.call(ctx, l, 11)
					require.Equal(f, aboveLimit{11, 10}, err)
					only(DecisionInfo{Permits: 11, Took: trip, Err: err}, nil)

					// The context ends while the request is at Redis: a goroutine without a caller
					// reports that call.
					leaves, leave := context.WithTimeout(ctx, trip/2)
					defer leave()
					err = way.call(leaves, l, 1)
					require.ErrorIs(f, err, context.DeadlineExceeded)
					only(DecisionInfo{Permits: 1, Took: trip / 2, Err: err}, nil)
					time.Sleep(time.Second)
					assert.EqualValues(f, 1, o.alone.Load())
					_, calls, _ := o.all()
					assert.Equal(f, []RedisCallInfo{{Limiter: &l.Limiter, Requests: 1, Permits: 1, Took: trip}}, calls)

					f.change(l, func(s *state) { s.deleted = true })
					err = way.call(ctx, l, 2)
					require.ErrorContains(f, err, "NOTSET")
					only(DecisionInfo{Permits: 2, Took: trip, Err: err}, err)
				})
		})
	}
}

func TestObserver_Prefetch_IsReportedWithItsCall(t *testing.T) {
	s := Settings{Prefetch: shortPrefetch}
	observed(t, s, 10_000, time.Hour, func(ctx context.Context, f *fixture, l *fake, o *events) {
		f.Latency.Store(int64(500 * time.Microsecond))
		for range 300 {
			time.Sleep(30 * time.Microsecond)
			f.RequireTrue(l.TryAcquire(ctx, 1))
		}
		decisions, calls, _ := o.all()
		used, prefetched := int64(0), int64(0)
		for _, d := range decisions {
			if d.From == FromPrefetch {
				used += d.Permits
			}
		}
		for _, c := range calls {
			prefetched += c.Prefetched
		}
		assert.Positive(f, used)
		assert.GreaterOrEqual(f, prefetched, used)
	})
}

// TestObserver_Charge_IsReportedOnce: by its caller, if that stays.
func TestObserver_Charge_IsReportedOnce(t *testing.T) {
	observed(t, Settings{}, 20, time.Hour, func(ctx context.Context, f *fixture, l *fake, o *events) {
		charge := func(ctx context.Context) error {
			return redistest.Err(Charge(ctx, &l.Limiter, 5, func(context.Context) (int, error) {
				time.Sleep(time.Second)
				return 0, nil
			}))
		}
		reported := func() int { _, calls, _ := o.all(); return len(calls) }
		require.NoError(f, charge(ctx))
		require.NoError(f, charge(context.WithoutCancel(ctx)))
		assert.Equal(f, 2, reported())
		assert.Zero(f, o.alone.Load())
		leaves, leave := context.WithTimeout(ctx, time.Second/2)
		defer leave()
		require.ErrorIs(f, charge(leaves), context.DeadlineExceeded)
		require.ErrorIs(f, charge(leaves), context.DeadlineExceeded)
		assert.Zero(f, reported())
		time.Sleep(time.Second)
		synctest.Wait()
		_, calls, _ := o.all()
		assert.Equal(f, []RedisCallInfo{{Limiter: &l.Limiter, Requests: 1, Permits: 5, Took: time.Second}}, calls)
		assert.EqualValues(f, 1, o.alone.Load())
	})
}

func TestObserver_NoHooks_NothingIsReported(t *testing.T) {
	assert.Nil(t, New(Settings{}).observer)
	assert.Nil(t, New(Settings{Observer: new(Observer)}).observer)
	withServer(t, func(t *testing.T, f *fixture) {
		var seen atomic.Int64
		for _, o := range []*Observer{
			{Decision: func(context.Context, DecisionInfo) { seen.Add(1) }},
			{RedisCall: func(context.Context, RedisCallInfo) { seen.Add(1) }},
			{Waiting: func(context.Context, WaitingInfo) { seen.Add(1) }},
		} {
			l := open(New(Settings{Redis: f.Conn, Observer: o}), "limiter", 100, time.Hour)
			f.RequireGranted(l, 1)
			require.NoError(t, l.Acquire(t.Context(), 1))
			_, err := Charge(t.Context(), &l.Limiter, 1, func(context.Context) (int, error) { return 0, nil })
			require.NoError(t, err)
		}
		assert.EqualValues(t, 2+3+2, seen.Load())
	})
}
