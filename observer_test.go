package rratelimiter

import (
	"context"
	"fmt"
	"math/rand/v2"
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
		b.latency.Store(int64(10 * time.Millisecond))
		test(context.WithValue(b.Context(), callerKey{}, 1), b, l, o)
		pass(time.Minute)
		synctest.Wait()
		assert.True(b, l.client.engine.Idle())
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
		_, err := l.TryAcquireWithin(ctx, n, second)
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
					if ask.waits {
						want.Waited = want.Took
					}
					decisions, calls, waiting := o.all()
					assert.Equal(b, []DecisionInfo{want}, decisions)
					if took > 0 {
						assert.Equal(b, []RedisCallInfo{{"limiter", "redisson", 1, want.Permits, 0, took, err}}, calls)
					} else {
						assert.Empty(b, calls)
					}
					if want.Waited > 0 {
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

				err = ask.call(ctx, l, maxPermits+1)
				require.ErrorIs(b, err, ErrPermitsExceedRate)
				only(DecisionInfo{Permits: maxPermits + 1, Err: err}, 0, nil)

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
				require.Error(b, ask.call(leaves, l, maxPermits+1))
				require.ErrorIs(b, ask.call(ctx, l, 0), ErrInvalidPermits)
				require.ErrorIs(b, ask.call(ctx, l.client.Limiter(""), 1), ErrInvalidName)
				require.ErrorIs(b, ask.call(ctx, l.client.Limiter(""), maxPermits+1), ErrInvalidPermits)
				require.ErrorIs(b, ask.call(ctx, new(Limiter), maxPermits+1), ErrInvalidPermits)
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

// TestAnObserverIsToldWhoDecided, from memory too.
func TestAnObserverIsToldWhoDecided(t *testing.T) {
	sources := func(o *told) (all []Source) {
		decisions, _, _ := o.all()
		for _, d := range decisions {
			all = append(all, d.Source)
		}
		return all
	}
	observed(t, Rate{Permits: 10, Interval: time.Hour}, func(ctx context.Context, b *bubble, l *Limiter, o *told) {
		for range 3 {
			_, err := l.TryAcquire(ctx, 6)
			require.NoError(b, err)
			pass(second)
		}
		_, err := l.TryAcquireWithin(ctx, 6, second)
		require.NoError(b, err)
		assert.Equal(b, []Source{FromRedis, FromRedis, FromMemory, FromRedis}, sources(o))
	}, WithDenialCache())

	observed(t, Rate{Permits: 1_000_000, Interval: time.Hour}, func(ctx context.Context, b *bubble, l *Limiter, o *told) {
		b.latency.Store(int64(500 * time.Microsecond))
		var carried, leased, used, from int64
		for i := range 3000 {
			pass(20 * time.Microsecond)
			if i%3 == 0 {
				require.NoError(b, l.Acquire(ctx, 1))
			} else {
				ok, err := l.TryAcquire(ctx, 1)
				require.NoError(b, err)
				require.True(b, ok)
			}
		}
		pass(second)
		assert.Positive(b, o.alone.Load(), "calls that fetched a lease alone")
		decisions, calls, waiting := o.all()
		require.Len(b, decisions, 3000)
		for _, d := range decisions {
			switch d.Source {
			case FromLease:
				used++
				assert.Zero(b, d.Took)
			case FromRedis:
				from++
			}
		}
		for _, c := range calls {
			carried += int64(c.Requests)
			leased += c.Leased
		}
		assert.EqualValues(b, 3000, used+from)
		assert.Greater(b, used, int64(2000))
		assert.GreaterOrEqual(b, leased, used)
		assert.Equal(b, from, carried)
		assert.Less(b, len(waiting), 100, "who has a lease does not wait")
	}, WithLease(shortLease))
}

// TestAnObserverIsToldWhoDecidedInACrowd that is served from leases, in line too: whom Redis decided on, a call carried.
func TestAnObserverIsToldWhoDecidedInACrowd(t *testing.T) {
	observed(t, Rate{Permits: 20_000, Interval: second}, func(ctx context.Context, b *bubble, l *Limiter, o *told) {
		b.latency.Store(int64(500 * time.Microsecond))
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
		decisions, calls, _ := o.all()
		require.Len(b, decisions, 4000)
		by, inLine, carried := make(map[Source]int), 0, 0
		for _, d := range decisions {
			by[d.Source]++
			if d.Source == FromLease && d.Waited > 0 {
				inLine++
			}
		}
		for _, c := range calls {
			carried += c.Requests
		}
		assert.Greater(b, by[FromLease], 1000)
		assert.Positive(b, inLine)
		again := carried - by[FromRedis] // whom a call did not serve, and a later one, or a lease, did
		assert.GreaterOrEqual(b, again, 0)
		assert.Less(b, again, 100)
	}, WithLease(shortLease))
}

// TestAnObserverIsToldHowLongTheLineIs.
func TestAnObserverIsToldHowLongTheLineIs(t *testing.T) {
	observed(t, Rate{Permits: 2, Interval: second}, func(ctx context.Context, b *bubble, l *Limiter, o *told) {
		other := New(b.conn, WithObserver(o.observer(b))).Limiter("limiter")
		before := b.scripts.Load()
		leaves, leave := context.WithCancel(ctx)
		var callers sync.WaitGroup
		for range 6 {
			callers.Go(func() { assert.NoError(b, l.Acquire(ctx, 1)) })
			synctest.Wait()
		}
		callers.Go(func() { assert.ErrorIs(b, l.Acquire(leaves, 1), context.Canceled) })
		synctest.Wait()
		callers.Go(func() { assert.NoError(b, other.Acquire(ctx, 1)) }) // of another Client
		synctest.Wait()
		pass(100 * time.Millisecond)
		_, _, waiting := o.all()
		var lengths []int
		for _, w := range waiting {
			if w.Change == 1 {
				lengths = append(lengths, w.Length)
			}
		}
		assert.Equal(b, []int{1, 2, 3, 4, 5, 6, 7, 1}, lengths)
		leave()
		callers.Wait()
		pass(second)
		_, calls, more := o.all()
		sum := 0
		for _, w := range append(waiting, more...) {
			sum += w.Change
			assert.GreaterOrEqual(b, w.Length, 0)
		}
		assert.Zero(b, sum)
		assert.Zero(b, more[len(more)-1].Length)
		assert.NotEmpty(b, calls)
		assert.Greater(b, b.scripts.Load()-before, int64(len(calls)), "and some before")
	})
}

// TestCallsThatShareAPipelineAreToldOfEach.
func TestCallsThatShareAPipelineAreToldOfEach(t *testing.T) {
	observed(t, Rate{Permits: 1000, Interval: time.Hour}, func(ctx context.Context, b *bubble, l *Limiter, o *told) {
		const names = 40
		scripts, sent := b.scripts.Load(), b.sent.Load()
		var callers sync.WaitGroup
		for i := range names {
			name := l.client.Limiter(fmt.Sprint("name ", i))
			for range 3 {
				callers.Go(func() {
					_, err := name.TryAcquire(ctx, 1)
					assert.ErrorIs(b, err, ErrNotInitialized)
				})
			}
		}
		callers.Wait()
		decisions, calls, _ := o.all()
		assert.Len(b, decisions, 3*names)
		assert.Len(b, calls, int(b.scripts.Load()-scripts))
		assert.Less(b, b.sent.Load()-sent, int64(len(calls)), "in pipelines")
		carried := make(map[string]int)
		for _, c := range calls {
			carried[c.Name] += c.Requests
		}
		assert.Len(b, carried, names)
		for name, requests := range carried {
			assert.Equal(b, 3, requests, name)
		}
	})
}
