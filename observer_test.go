package rratelimiter

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// told is what an Observer was told.
type told struct {
	mu        sync.Mutex
	decisions []DecisionInfo
	calls     []RedisCallInfo
	alone     atomic.Int64 // calls that a goroutine of its own told of
	waiting   []WaitingInfo
}

type callerKey struct{}

// observer is one who is told, with the contexts of the callers.
func (o *told) observer(t testing.TB) *Observer {
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

// all gives what was told since, and forgets it.
func (o *told) all() (decisions []DecisionInfo, calls []RedisCallInfo, waiting []WaitingInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	decisions, calls, waiting = o.decisions, o.calls, o.waiting
	o.decisions, o.calls, o.waiting = nil, nil, nil
	return decisions, calls, waiting
}

// observed runs a test with somebody who is told of a limiter, on a link of 10 ms.
func observed(t *testing.T, rate Rate, test func(ctx context.Context, b *bubble, l *Limiter, o *told), opts ...Option) {
	inBubble(t, func(b *bubble) {
		o := new(told)
		l := b.limiter(rate, append(opts, WithObserver(o.observer(b)))...)
		b.Latency.Store(int64(10 * time.Millisecond))
		test(context.WithValue(b.Context(), callerKey{}, 1), b, l, o)
		pass(time.Minute)
		synctest.Wait()
		assert.True(b, l.wire.client.engine.Idle())
	})
}

const trip = 10 * time.Millisecond

// asks is the calls that ask for permits.
var asks = []struct {
	name   string
	waits  bool
	denied bool // rather than wait
	call   func(ctx context.Context, l *Limiter, permits int64) error
}{
	{"TryAcquire", false, true, func(ctx context.Context, l *Limiter, n int64) error { _, err := l.TryAcquire(ctx, n); return err }},
	{"Take", false, true, func(ctx context.Context, l *Limiter, n int64) error { _, err := l.Take(ctx, n); return err }},
	{"TryAcquireWithin no time", false, true, func(ctx context.Context, l *Limiter, n int64) error {
		_, err := l.TryAcquireWithin(ctx, n, 0)
		return err
	}},
	{"TryAcquireWithin", true, true, func(ctx context.Context, l *Limiter, n int64) error {
		_, err := l.TryAcquireWithin(ctx, n, time.Minute)
		return err
	}},
	{"Acquire", true, false, func(ctx context.Context, l *Limiter, n int64) error { return l.Acquire(ctx, n) }},
}

// TestAnObserverIsToldOfEveryDecision once, and of the call to Redis that it came of.
func TestAnObserverIsToldOfEveryDecision(t *testing.T) {
	for _, ask := range asks {
		t.Run(ask.name, func(t *testing.T) {
			observed(t, Rate{Permits: 10, Interval: time.Hour}, func(ctx context.Context, b *bubble, l *Limiter, o *told) {
				// only says that nothing else was told since but a decision, and a call to Redis that took so long.
				only := func(want DecisionInfo, took time.Duration, err error) {
					b.Helper()
					want.Name, want.Policy, want.Took = "limiter", "redisson", max(want.Took, took)
					decisions, calls, waiting := o.all()
					assert.Equal(b, []DecisionInfo{want}, decisions)
					if took > 0 {
						assert.Equal(b, []RedisCallInfo{{"limiter", "redisson", 1, want.Permits, 0, took, err}}, calls)
					} else {
						assert.Empty(b, calls)
					}
					if ask.waits && want.Took > 0 {
						assert.Equal(b, []WaitingInfo{{"limiter", "redisson", 1, 1}, {"limiter", "redisson", -1, 0}}, waiting)
					} else {
						assert.Empty(b, waiting)
					}
				}
				require.NoError(b, ask.call(ctx, l, 3))
				only(DecisionInfo{Permits: 3, Granted: true, Source: FromRedis}, trip, nil)

				if ask.denied {
					require.NoError(b, ask.call(ctx, l, 8))
					only(DecisionInfo{Permits: 8, Source: FromRedis}, trip, nil)
				}
				err := ask.call(ctx, l, 11)
				require.ErrorIs(b, err, ErrPermitsExceedRate)
				only(DecisionInfo{Permits: 11, Err: err}, trip, nil)

				err = ask.call(ctx, l, maxGrant+1)
				require.ErrorIs(b, err, ErrInvalidPermits)
				only(DecisionInfo{Permits: maxGrant + 1, Err: err}, 0, nil)

				// The end of the context while the request is at Redis: a goroutine of its own tells of that call.
				leaves, leave := context.WithTimeout(ctx, trip/2)
				defer leave()
				err = ask.call(leaves, l, 1)
				require.ErrorIs(b, err, context.DeadlineExceeded)
				only(DecisionInfo{Permits: 1, Took: trip / 2, Err: err}, 0, nil)
				pass(second)
				assert.EqualValues(b, 1, o.alone.Load())
				_, calls, _ := o.all()
				assert.Equal(b, []RedisCallInfo{{"limiter", "redisson", 1, 1, 0, trip, nil}}, calls)

				// What is refused before anything is asked.
				require.Error(b, ask.call(leaves, l, 1))
				require.Error(b, ask.call(leaves, l, maxGrant+1))
				require.ErrorIs(b, ask.call(ctx, l, 0), ErrInvalidPermits)
				require.ErrorIs(b, ask.call(ctx, l.wire.client.Limiter(""), 1), ErrInvalidName)
				require.ErrorIs(b, ask.call(ctx, l.wire.client.Limiter(""), maxGrant+1), ErrInvalidPermits)
				require.ErrorIs(b, ask.call(ctx, new(Limiter), maxGrant+1), ErrInvalidPermits)
				decisions, calls, waiting := o.all()
				assert.Empty(b, decisions)
				assert.Empty(b, calls)
				assert.Empty(b, waiting)

				_, err = l.Delete(ctx)
				require.NoError(b, err)
				err = ask.call(ctx, l, 2)
				require.ErrorIs(b, err, ErrNotInitialized)
				only(DecisionInfo{Permits: 2, Err: err}, trip, err)
			})
		})
	}
}

// TestAnObserverIsReadWhenItIsGiven: what becomes of its fields later is no matter.
func TestAnObserverIsReadWhenItIsGiven(t *testing.T) {
	inBubble(t, func(b *bubble) {
		var told int
		o := &Observer{Decision: func(context.Context, DecisionInfo) { told++ }}
		given := WithObserver(o)
		o.Decision = nil
		b.Take(b.limiter(Rate{Permits: 10, Interval: time.Hour}, given), 1)
		assert.Equal(b, 1, told)
	})
}
