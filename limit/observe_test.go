package limit

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// reports are what an Observer reported.
type reports struct {
	decisions []rratelimiter.DecisionInfo
	calls     []rratelimiter.RedisCallInfo

	mu            sync.Mutex
	held, expired map[string]int // places, by their limiter
}

func (r *reports) places(p rratelimiter.PlacesInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[p.Name] += p.Change
	r.expired[p.Name] += p.Expired
}

// observed runs a test with limiters that an Observer reports, on a link of 10 ms.
func observed(t *testing.T, test func(t *testing.T, f *fixture, client *rratelimiter.Client, o *reports)) {
	withRedis(t, func(t *testing.T, f *fixture) {
		o := &reports{held: make(map[string]int), expired: make(map[string]int)}
		client := rratelimiter.New(f.Conn, rratelimiter.WithObserver(&rratelimiter.Observer{
			Decision:  func(_ context.Context, d rratelimiter.DecisionInfo) { o.decisions = append(o.decisions, d) },
			RedisCall: func(_ context.Context, c rratelimiter.RedisCallInfo) { o.calls = append(o.calls, c) },
			Places:    o.places,
		}))
		other := New(client, "other", FixedWindow{10, time.Hour, false}) // loads the scripts
		redistest.Result(t, other.Charge, 1)
		redistest.Result(t, other.TryAcquire, 1)
		o.decisions, o.calls = nil, nil
		f.Latency.Store(int64(10 * time.Millisecond))
		test(t, f, client, o)
	})
}

// TestObserver_Calls_AreReportedOnce: those for more than the limit too, and no invalid ones.
func TestObserver_Calls_AreReportedOnce(t *testing.T) {
	observed(t, func(t *testing.T, _ *fixture, client *rratelimiter.Client, o *reports) {
		l := New(client, "name", FixedWindow{10, time.Hour, false})
		redistest.Result(t, l.Take, 6)
		assert.False(t, tryWithin(t, l, 5, 0))
		redistest.Result(t, l.Charge, 5)
		above := redistest.Err(l.TryAcquire(t.Context(), 11))
		require.ErrorIs(t, above, rratelimiter.ErrPermitsExceedRate)
		left, leave := context.WithCancel(t.Context())
		leave()
		for name, call := range takingCalls {
			require.Error(t, call(left, l, 1), name)
			require.Error(t, call(t.Context(), l, 0), name)
			require.Error(t, call(t.Context(), New(client, "name"), 1), name)
			require.Error(t, call(t.Context(), new(Limiter), 1), name)
		}

		want := []rratelimiter.DecisionInfo{
			{Permits: 6, Granted: true}, {Permits: 5}, {Permits: 5, Granted: true, Charged: true}, {Permits: 11, Err: above},
		}
		const trip = 10 * time.Millisecond
		for i := range want {
			want[i].Name, want[i].Policy = "name", "fixed_window"
			if want[i].Err == nil {
				want[i].Source, want[i].Took = rratelimiter.FromRedis, trip
			}
		}
		assert.Equal(t, want, o.decisions)
		call := rratelimiter.RedisCallInfo{Name: "name", Policy: "fixed_window", Requests: 1, Permits: 5, Took: trip}
		first := call
		first.Permits = 6
		assert.Equal(t, []rratelimiter.RedisCallInfo{first, call, call}, o.calls)
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
			assert.Equal(t, want, o.decisions[len(o.decisions)-1].Policy)
			assert.Equal(t, want, o.calls[len(o.calls)-1].Policy)
		}
	})
}

// TestObserver_Places_CountWhatIsHeldAndWhatExpired: of a process that has ended too, once, by the next call of any
// Client that takes or returns a place.
func TestObserver_Places_CountWhatIsHeldAndWhatExpired(t *testing.T) {
	observed(t, func(t *testing.T, f *fixture, client *rratelimiter.Client, o *reports) {
		of := func(c *rratelimiter.Client, name string) *Limiter {
			return New(c, "{x}:"+name, InFlight{5, time.Minute, name == "renewed"})
		}
		check := func(name string, held, expired int) {
			t.Helper()
			synctest.Wait()
			o.mu.Lock()
			defer o.mu.Unlock()
			assert.Equal(t, []int{held, expired}, []int{o.held["{x}:"+name], o.expired["{x}:"+name]})
		}
		plain, renewed := of(client, "plain"), of(client, "renewed")
		var first, second, late Taken
		takeAll(t, &first, 1, plain, renewed)
		takeAll(t, &second, 2, renewed)
		check("plain", 1, 0)
		check("renewed", 2, 0)
		require.NoError(t, first.Settle(t.Context()))
		check("plain", 0, 0)
		check("renewed", 1, 0)

		for range 3 { // holders of another Client, which end without a return
			assert.True(t, redistest.Result(t, of(f.client, "plain").TryAcquire, 1))
			assert.True(t, redistest.Result(t, of(f.client, "renewed").TryAcquire, 1))
		}
		takeAll(t, &late, 1, plain)
		time.Sleep(59 * time.Second)
		check("plain", 1, 0)
		time.Sleep(2 * time.Second)
		check("plain", 0, 0) // it has outlived its lease
		assert.True(t, redistest.Result(t, plain.TryAcquire, 1))
		check("plain", 0, 4)
		require.NoError(t, late.Settle(t.Context()))
		check("plain", 0, 4)
		assert.True(t, redistest.Result(t, plain.Take, 1).Allowed)
		check("plain", 0, 4)

		check("renewed", 1, 0)
		require.NoError(t, second.Settle(t.Context()))
		check("renewed", 0, 3)
		assert.True(t, redistest.Result(t, renewed.TryAcquire, 1))
		time.Sleep(119 * time.Second)
		assert.True(t, redistest.Result(t, renewed.Take, 1).Allowed)
		check("renewed", 0, 4)
	})
}
