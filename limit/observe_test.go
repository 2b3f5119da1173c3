package limit

import (
	"context"
	"maps"
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
func observed(t *testing.T, test func(t *testing.T, f *fixture, client *rratelimiter.Client, o *reports)) {
	withRedis(t, func(t *testing.T, f *fixture) {
		o := new(reports)
		client := rratelimiter.New(f.Conn, rratelimiter.WithObserver(o.observer()))
		// The scripts are loaded.
		for _, policy := range []Policy{FixedWindow{10, time.Hour, false}, TokenBucket{10, 10, time.Second}} {
			l := New(client, "other", policy)
			redistest.Result(t, l.Charge, 1)
			redistest.Result(t, l.TryAcquire, 1)
		}
		o.all()
		f.Latency.Store(int64(10 * time.Millisecond))
		test(t, f, client, o)
	})
}

// TestObserver_Decisions_AreReportedOnce: so are the calls to Redis that made them.
func TestObserver_Decisions_AreReportedOnce(t *testing.T) {
	const trip = 10 * time.Millisecond
	calls := maps.Clone(takingCalls)
	calls["Charge"] = func(ctx context.Context, l *Limiter, n int64) error { return redistest.Err(l.Charge(ctx, n)) }
	calls["TryAcquireWithin no time"] = func(ctx context.Context, l *Limiter, n int64) error {
		return redistest.Err(l.TryAcquireWithin(ctx, n, 0))
	}
	for name, ask := range calls {
		t.Run(name, func(t *testing.T) {
			observed(t, func(t *testing.T, _ *fixture, client *rratelimiter.Client, o *reports) {
				l := New(client, "name", FixedWindow{10, time.Hour, false})
				only := func(want rratelimiter.DecisionInfo, took time.Duration) {
					t.Helper()
					want.Name, want.Policy, want.Took, want.Charged = "name", "fixed_window", took, name == "Charge"
					decisions, calls, _ := o.all()
					assert.Equal(t, []rratelimiter.DecisionInfo{want}, decisions)
					if took == 0 {
						assert.Empty(t, calls)
					} else {
						assert.Equal(t,
							[]rratelimiter.RedisCallInfo{{Name: "name", Policy: "fixed_window", Requests: 1, Permits: want.Permits,
								Took: took}}, calls)
					}
				}
				require.NoError(t, ask(t.Context(), l, 6))
				only(rratelimiter.DecisionInfo{Permits: 6, Granted: true, Source: rratelimiter.FromRedis}, trip)
				if name != "Acquire" {
					require.NoError(t, ask(t.Context(), l, 7))
					only(rratelimiter.DecisionInfo{Permits: 7, Granted: name == "Charge", Source: rratelimiter.FromRedis}, trip)
				}
				if name != "Charge" {
					err := ask(t.Context(), l, 11)
					require.ErrorIs(t, err, rratelimiter.ErrPermitsExceedRate)
					only(rratelimiter.DecisionInfo{Permits: 11, Err: err}, 0)
				}

				// Calls that are refused without a call to Redis.
				left, leave := context.WithCancel(t.Context())
				leave()
				require.Error(t, ask(left, l, 1))
				require.Error(t, ask(left, l, 11))
				require.Error(t, ask(t.Context(), l, 0))
				require.Error(t, ask(t.Context(), New(client, "name"), 1))
				require.Error(t, ask(t.Context(), new(Limiter), 1))
				decisions, calls, waiting := o.all()
				assert.Empty(t, decisions)
				assert.Empty(t, calls)
				assert.Empty(t, waiting)
			})
		})
	}
}

// TestObserver_ChargeFails_ReportsTheError: a key has data that is not the limiter's.
func TestObserver_ChargeFails_ReportsTheError(t *testing.T) {
	observed(t, func(t *testing.T, f *fixture, client *rratelimiter.Client, o *reports) {
		l := New(client, "name", FixedWindow{10, time.Hour, false})
		require.NoError(t, f.Redis.Set(l.wire.keys[0], "not ours"))
		_, tried := l.TryAcquire(t.Context(), 1)
		_, charged := l.Charge(t.Context(), 1)
		var wrong *rratelimiter.StateError
		require.ErrorAs(t, charged, &wrong)
		decisions, calls, _ := o.all()
		require.Len(t, calls, 2)
		for i, err := range []error{tried, charged} {
			assert.Equal(t, err, calls[i].Err)
			assert.Equal(t, err, decisions[i].Err)
			assert.False(t, decisions[i].Granted)
		}
	})
}

// TestObserver_Policy_IsTheirKinds: so the number of such names is small.
func TestObserver_Policy_IsTheirKinds(t *testing.T) {
	observed(t, func(t *testing.T, _ *fixture, client *rratelimiter.Client, o *reports) {
		java := client.Limiter("java")
		require.NoError(t, java.SetRate(t.Context(), rratelimiter.Rate{Permits: 1, Interval: time.Hour}))
		windows := New(client, "name", SlidingLog{5, time.Hour}, FixedWindow{5, time.Hour, false},
			FixedWindow{5, time.Minute, false}, Calendar{5, Day, nil})
		for want, l := range map[string]*Limiter{
			"calendar+fixed_window+sliding_log":          windows,
			"calendar+fixed_window+redisson+sliding_log": Join(windows, java),
			"leaky_bucket":   New(client, "name", LeakyBucket{5, 5, time.Hour}),
			"sliding_window": New(client, "name", SlidingWindow{5, time.Hour, 0}),
			"smooth":         New(client, "name", Smooth{Permits: 5, Interval: time.Hour}),
		} {
			redistest.Result(t, l.Take, 1)
			decisions, calls, _ := o.all()
			assert.Equal(t, want, decisions[0].Policy)
			assert.Equal(t, want, calls[0].Policy)
		}
	})
}

// TestObserver_WaitKnownFromAnEarlierReply_IsReported: the first call of the second caller grants its permit,
// which it has waited for.
func TestObserver_WaitKnownFromAnEarlierReply_IsReported(t *testing.T) {
	observed(t, func(t *testing.T, _ *fixture, client *rratelimiter.Client, o *reports) {
		l := New(client, "name", TokenBucket{1, 10, time.Second})
		var first sync.WaitGroup
		first.Go(func() { assert.NoError(t, l.Acquire(t.Context(), 1)) })
		time.Sleep(time.Millisecond) // the first call is on its way
		require.NoError(t, l.Acquire(t.Context(), 1))
		first.Wait()
		decisions, calls, _ := o.all()
		require.Len(t, decisions, 2)
		assert.Len(t, calls, 2)
		assert.Zero(t, decisions[0].Waited)
		assert.Equal(t, decisions[1].Took, decisions[1].Waited)
	})
}
