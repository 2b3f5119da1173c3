package limit

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// reports are what an Observer reported since the last call of all.
type reports struct {
	mu        sync.Mutex
	decisions []rratelimiter.DecisionInfo
	calls     []rratelimiter.RedisCallInfo
	waiting   []rratelimiter.WaitingInfo
}

func (o *reports) observer() *rratelimiter.Observer {
	return &rratelimiter.Observer{
		Decision: keep(o, &o.decisions), RedisCall: keep(o, &o.calls), Waiting: keep(o, &o.waiting),
	}
}

// keep returns a hook that adds to a list of the reports.
func keep[A any](o *reports, list *[]A) func(context.Context, A) {
	return func(_ context.Context, report A) {
		o.mu.Lock()
		defer o.mu.Unlock()
		*list = append(*list, report)
	}
}

func (o *reports) all() (decisions []rratelimiter.DecisionInfo, calls []rratelimiter.RedisCallInfo,
	waiting []rratelimiter.WaitingInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	decisions, calls, waiting = o.decisions, o.calls, o.waiting
	o.decisions, o.calls, o.waiting = nil, nil, nil
	return decisions, calls, waiting
}

// observed runs a test with limiters that an Observer reports, on a link of 10 ms.
func observed(t *testing.T, test func(b *fixture, client *rratelimiter.Client, o *reports)) {
	withRedis(t, func(b *fixture) {
		o := new(reports)
		client := rratelimiter.New(b.Conn, rratelimiter.WithObserver(o.observer()))
		// The scripts are loaded.
		for _, policy := range []Policy{FixedWindow{10, time.Hour, false}, TokenBucket{10, 10, time.Second}} {
			l := New(client, "other", policy)
			must(b, l.Charge, 1)
			must(b, l.TryAcquire, 1)
			if l.wire.plan.reservable {
				must(b, l.Reserve, 1)
			}
		}
		o.all()
		b.Latency.Store(int64(10 * ms))
		test(b, client, o)
	})
}

// TestObserver_Decisions_AreReportedOnce: so are the calls to Redis that made them.
func TestObserver_Decisions_AreReportedOnce(t *testing.T) {
	const trip = 10 * ms
	for name, ask := range map[string]func(ctx context.Context, l *Limiter, permits int64) error{
		"TryAcquire": func(ctx context.Context, l *Limiter, n int64) error { return errOf(l.TryAcquire(ctx, n)) },
		"Take":       func(ctx context.Context, l *Limiter, n int64) error { return errOf(l.Take(ctx, n)) },
		"TakeEach":   func(ctx context.Context, l *Limiter, n int64) error { return errOf(l.TakeEach(ctx, n)) },
		"Charge":     func(ctx context.Context, l *Limiter, n int64) error { return errOf(l.Charge(ctx, n)) },
		"Acquire":    func(ctx context.Context, l *Limiter, n int64) error { return l.Acquire(ctx, n) },
		"TryAcquireWithin": func(ctx context.Context, l *Limiter, n int64) error {
			return errOf(l.TryAcquireWithin(ctx, n, time.Second))
		},
		"TryAcquireWithin no time": func(ctx context.Context, l *Limiter, n int64) error {
			return errOf(l.TryAcquireWithin(ctx, n, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			observed(t, func(b *fixture, client *rratelimiter.Client, o *reports) {
				l := New(client, "name", FixedWindow{10, time.Hour, false})
				only := func(want rratelimiter.DecisionInfo, took time.Duration) {
					b.Helper()
					want.Name, want.Policy, want.Took, want.Charged = "name", "fixed_window", took, name == "Charge"
					decisions, calls, _ := o.all()
					assert.Equal(b, []rratelimiter.DecisionInfo{want}, decisions)
					if took == 0 {
						assert.Empty(b, calls)
					} else {
						assert.Equal(b,
							[]rratelimiter.RedisCallInfo{{Name: "name", Policy: "fixed_window", Requests: 1, Permits: want.Permits,
								Took: took}}, calls)
					}
				}
				require.NoError(b, ask(b.Context(), l, 6))
				only(rratelimiter.DecisionInfo{Permits: 6, Granted: true, Source: rratelimiter.FromRedis}, trip)
				if name != "Acquire" {
					require.NoError(b, ask(b.Context(), l, 7))
					only(rratelimiter.DecisionInfo{Permits: 7, Granted: name == "Charge", Source: rratelimiter.FromRedis}, trip)
				}
				if name != "Charge" {
					err := ask(b.Context(), l, 11)
					require.ErrorIs(b, err, rratelimiter.ErrPermitsExceedRate)
					only(rratelimiter.DecisionInfo{Permits: 11, Err: err}, 0)
				}

				// Calls that are refused without a call to Redis.
				left, leave := context.WithCancel(b.Context())
				leave()
				require.Error(b, ask(left, l, 1))
				require.Error(b, ask(left, l, 11))
				require.Error(b, ask(b.Context(), l, 0))
				require.Error(b, ask(b.Context(), New(client, "name"), 1))
				require.Error(b, ask(b.Context(), new(Limiter), 1))
				require.ErrorIs(b, errOf(l.Reserve(b.Context(), 1)), ErrNotReservable)
				decisions, calls, waiting := o.all()
				assert.Empty(b, decisions)
				assert.Empty(b, calls)
				assert.Empty(b, waiting)
			})
		})
	}
}

// TestObserver_Reservations_AreReported: a call that waits for its reservation counts as a waiting
// call of that limiter.
func TestObserver_Reservations_AreReported(t *testing.T) {
	observed(t, func(b *fixture, client *rratelimiter.Client, o *reports) {
		l := New(client, "name", TokenBucket{1, 10, time.Second})
		assert.Zero(b, must(b, l.Reserve, 1).Delay())
		want := rratelimiter.DecisionInfo{Name: "name", Policy: "token_bucket", Permits: 1, Granted: true, Took: 10 * ms,
			Source: rratelimiter.FromRedis}
		decisions, calls, waiting := o.all()
		assert.Equal(b, []rratelimiter.DecisionInfo{want}, decisions)
		assert.Equal(b,
			[]rratelimiter.RedisCallInfo{{Name: "name", Policy: "token_bucket", Requests: 1, Permits: 1, Took: 10 * ms}}, calls)
		assert.Empty(b, waiting)

		var callers sync.WaitGroup
		callers.Go(func() { assert.NoError(b, l.Acquire(b.Context(), 1)) })
		redistest.Pass(20 * ms)
		callers.Go(func() {
			ok, err := l.TryAcquireWithin(b.Context(), 1, time.Second)
			assert.NoError(b, err)
			assert.True(b, ok)
		})
		redistest.Pass(20 * ms)
		require.False(b, mustWait(b, l, 1, 50*ms))
		leaves, leave := context.WithCancel(b.Context())
		time.AfterFunc(100*ms, leave)
		left := l.Acquire(leaves, 1)
		require.ErrorIs(b, left, context.Canceled)
		late, stop := context.WithTimeout(b.Context(), 40*ms) // after the permits are returned, in two trips
		defer stop()
		refused := l.Acquire(late, 1)
		require.ErrorIs(b, refused, context.DeadlineExceeded)
		callers.Wait()

		decisions, calls, waiting = o.all()
		require.Len(b, decisions, 5)
		assert.Len(b, calls, 5)
		sum := time.Duration(0)
		for _, d := range decisions {
			if d.Granted {
				assert.Equal(b, d.Took, d.Waited)
				sum += d.Waited
			}
			switch {
			case errors.Is(d.Err, left):
				assert.Equal(b, 100*ms, d.Waited)
				assert.Equal(b, 100*ms, d.Took)
				assert.Equal(b, rratelimiter.FromNone, d.Source)
			case errors.Is(d.Err, refused):
				assert.Zero(b, d.Waited)
			default:
				assert.Equal(b, rratelimiter.FromRedis, d.Source)
			}
		}
		assert.Positive(b, sum)
		var lengths []int
		for _, w := range waiting {
			lengths = append(lengths, w.Length)
		}
		assert.Equal(b, []int{1, 2, 3, 2, 3, 2, 1, 2, 1, 0}, lengths)

		redistest.Pass(time.Second)
		require.NoError(b, l.Acquire(b.Context(), 1))
		decisions, calls, waiting = o.all()
		assert.Equal(b, []rratelimiter.DecisionInfo{want}, decisions, "it did not wait")
		assert.Len(b, calls, 1)
		assert.Len(b, waiting, 2)
	})
}

// TestObserver_ChargeFails_ReportsTheError: a key has data that is not the limiter's.
func TestObserver_ChargeFails_ReportsTheError(t *testing.T) {
	observed(t, func(b *fixture, client *rratelimiter.Client, o *reports) {
		l := New(client, "name", FixedWindow{10, time.Hour, false})
		require.NoError(b, b.Redis.Set(l.wire.keys[0], "not ours"))
		_, tried := l.TryAcquire(b.Context(), 1)
		_, charged := l.Charge(b.Context(), 1)
		var wrong *rratelimiter.StateError
		require.ErrorAs(b, charged, &wrong)
		decisions, calls, _ := o.all()
		require.Len(b, calls, 2)
		for i, err := range []error{tried, charged} {
			assert.Equal(b, err, calls[i].Err)
			assert.Equal(b, err, decisions[i].Err)
			assert.False(b, decisions[i].Granted)
		}
	})
}

// TestObserver_Policy_IsTheirKinds: so the number of such names is small.
func TestObserver_Policy_IsTheirKinds(t *testing.T) {
	observed(t, func(b *fixture, client *rratelimiter.Client, o *reports) {
		java := client.Limiter("java")
		require.NoError(b, java.SetRate(b.Context(), rratelimiter.Rate{Permits: 1, Interval: time.Hour}))
		windows := New(client, "name", SlidingLog{5, time.Hour}, FixedWindow{5, time.Hour, false},
			FixedWindow{5, time.Minute, false}, Calendar{5, Day, nil})
		for want, l := range map[string]*Limiter{
			"calendar+fixed_window+sliding_log":          windows,
			"calendar+fixed_window+redisson+sliding_log": Join(windows, java),
			"leaky_bucket":   New(client, "name", LeakyBucket{5, 5, time.Hour}),
			"sliding_window": New(client, "name", SlidingWindow{5, time.Hour, 0}),
			"smooth":         New(client, "name", Smooth{Permits: 5, Interval: time.Hour}),
		} {
			must(b, l.Take, 1)
			decisions, calls, _ := o.all()
			assert.Equal(b, want, decisions[0].Policy)
			assert.Equal(b, want, calls[0].Policy)
		}
	})
}
