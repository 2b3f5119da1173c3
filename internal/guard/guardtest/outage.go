package guardtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/policy/policytest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// slow makes Redis answer late, until the end of a test.
func slow(f *redistest.Fixture) (end func()) {
	f.Latency.Store(int64(time.Minute))
	return func() {
		f.Latency.Store(0)
		time.Sleep(2 * time.Minute)
	}
}

// Each mode, while Redis is slow and after that.
func testSlowRedis(t *testing.T, m Middleware) {
	for name, c := range map[string]struct {
		mode limit.FailureMode
		want map[int]int // by status
	}{
		"open":    {limit.Open, map[int]int{200: 50}},
		"closed":  {limit.Closed, map[int]int{503: 50}},
		"a share": {0.5, map[int]int{200: 3, 429: 47}}, // 5 of an hour, 3 of them at once
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				var mu sync.Mutex
				var changes []string
				server := m.Server(Settings{
					Client: client, Each: hour(10), Mode: c.mode, Deadline: 50 * time.Millisecond,
					OnRedisChange: func(_ string, up bool, err error) {
						mu.Lock()
						defer mu.Unlock()
						changes = append(changes, fmt.Sprint(up, err != nil))
					},
				})
				changed := func() []string {
					mu.Lock()
					defer mu.Unlock()
					return slices.Clone(changes)
				}
				require.Equal(t, 200, server.get(f).Status)
				time.Sleep(time.Second)
				f.Latency.Store(int64(time.Second))
				got := make(map[int]int)
				for i := range 50 {
					begin := time.Now()
					reply := server.get(f)
					got[reply.Status]++
					assert.Equal(t, i == 0, time.Since(begin) == 50*time.Millisecond, "the first request alone")
					assert.Equal(t, i > 0, time.Since(begin) == 0)
					assert.NotContains(t, reply.Text, "rratelimiter")
					time.Sleep(10 * time.Millisecond)
				}
				assert.Equal(t, c.want, got)
				assert.Equal(t, []string{"false true"}, changed())
				f.Latency.Store(0)
				time.Sleep(time.Minute)
				assert.Equal(t, []string{"false true", "true false"}, changed(), "without a request")
				assert.Equal(t, 200, server.get(f).Status)
			})
		})
	}
}

func testShare(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		var outcomes []limit.Outcome
		server := m.Server(Settings{
			Client: client, Each: append(hour(10), limit.TokenBucket{Capacity: 40, Refill: 20, Interval: time.Minute}),
			Mode: 0.1, Report: func(o limit.Outcome) { outcomes = append(outcomes, o) },
		})
		defer slow(f)()
		assert.Equal(t, 200, server.get(f).Status)
		reply := server.get(f)
		assert.Equal(t, 429, reply.Status)
		assert.Equal(t, time.Hour, reply.RetryAfter)
		for i, result := range []limit.Result{limit.Acquired, limit.Rejected} {
			assert.Equal(t, result, outcomes[i].Result)
			assert.True(t, outcomes[i].Local)
			assert.Zero(t, outcomes[i].Decision.Remaining)
			assert.ErrorIs(t, outcomes[i].Err, []error{context.DeadlineExceeded, outage.ErrDown}[i])
		}
	})
}

// A limiter has a share if its policies are known. A share may be too small.
func testNoShare(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		own := map[string]Settings{
			"another type": {Limiter: Known{limit.New(client, "quota", hour(1)...), hour(1)}, Mode: 1},
			"All":          {Limiter: limit.New(client, "own", hour(1)...), Mode: 1},
			"a rate": {Limiter: client.Limiter("rate",
				rratelimiter.InitialRate(rratelimiter.Rate{Permits: 1, Interval: time.Hour})), Mode: 1},
			"EachRedisson": {Client: client, Mode: 1,
				Initial: rratelimiter.Rate{Permits: 1, Interval: time.Hour, KeepAlive: time.Hour}},
		}
		defer slow(f)()
		for name, s := range own {
			server := m.Server(s)
			assert.Equal(t, 200, server.get(f).Status, "%s: the limiter knows its policies", name)
			assert.Equal(t, 429, server.get(f).Status, name)
		}
		small := Settings{Client: client, Each: hour(10), Mode: 0.09}
		assert.Equal(t, 503, m.Server(small).get(f).Status, "less than one permit")
		small = Settings{Client: client, Each: hour(10), Mode: 0.5, Cost: func() int64 { return 4 }}
		assert.Equal(t, 503, m.Server(small).get(f).Status, "more than the bucket holds")
	})
}

func testRegisteredPolicy(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		policytest.Register(t)
		t.Cleanup(synctest.Wait)                                  // a probe in the background reads the policies
		novel := policytest.Novel{FixedWindow: policytest.Window} // 3 permits, 2 of them at once
		server := m.Server(Settings{Client: client, Each: []limit.Policy{novel}, Mode: 1})
		assert.Equal(t, 200, server.get(f).Status)
		defer slow(f)()
		assert.Equal(t, 200, server.get(f).Status)
		assert.Equal(t, 200, server.get(f).Status)
		reply := server.get(f)
		assert.Equal(t, 429, reply.Status)
		assert.Contains(t, reply.Text, `"novel"`)
	})
}

func testSendInAnOutage(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		open := m.Client(Settings{Client: client, Each: hour(10), Mode: limit.Open}, fine)
		closed := m.Client(Settings{Client: client, Each: hour(10)}, fine)
		second := []limit.Policy{limit.FixedWindow{Permits: 10, Interval: time.Second}}
		share := m.Client(Settings{Client: client, Each: second, Mode: 0.1}, fine)
		_, err := open.send(f, "", time.Minute)
		assert.NoError(t, err, "the mode decides invalid requests too")
		defer slow(f)()
		begin := time.Now()
		_, err = open.send(f, "one", time.Minute)
		assert.NoError(t, err)
		assert.Equal(t, defaultDeadline, time.Since(begin))
		_, err = closed.send(f, "one", time.Minute)
		assert.ErrorIs(t, err, m.ErrNotSent)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		begin = time.Now()
		for i := range 4 {
			_, err = share.send(f, "one", time.Minute)
			assert.NoError(t, err)
			assert.InDelta(t, float64(i), time.Since(begin).Seconds(), 0.5, "one a second")
		}
	})
}
