package guardtest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Two processes share a limiter with a Pause. The server asks one of them to wait.
func testPauseOfAll(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		policies := []limit.Policy{limit.FixedWindow{Permits: 10, Interval: time.Second}, limit.Pause{Most: 20 * time.Second}}
		reply := firstly(Reply{Status: 503, RetryAfter: 7 * time.Second})
		one := m.Client(Settings{Client: client, Each: policies}, reply)
		other := m.Client(Settings{Client: rratelimiter.New(f.Conn), Each: policies}, reply)
		begin := time.Now()
		got, err := one.send(f, "key", time.Minute)
		require.NoError(t, err)
		assert.Equal(t, 503, got.Status)
		assert.Zero(t, time.Since(begin), "the response does not wait for Redis")
		time.Sleep(time.Millisecond)
		var all sync.WaitGroup
		var mu sync.Mutex
		var at []time.Duration
		for range 5 {
			for _, process := range []Client{one, other} {
				all.Go(func() {
					got, err := process.send(f, "key", time.Minute)
					assert.NoError(t, err)
					assert.Equal(t, 200, got.Status)
					mu.Lock()
					defer mu.Unlock()
					at = append(at, time.Since(begin))
				})
			}
		}
		all.Wait()
		for _, got := range at {
			assert.Equal(t, 7*time.Second, got.Truncate(100*time.Millisecond), "%v", at)
		}
	})
}

// firstly answers the first request, and later ones with 200.
func firstly(first Reply) func() Reply {
	var asked atomic.Int64
	return func() Reply {
		if asked.Add(1) == 1 {
			return first
		}
		return fine()
	}
}

// An operator ends a pause in Redis with 0, also for the process that got the response.
func testPauseEnds(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		pause := limit.Pause{Most: time.Hour}
		calls := m.Client(Settings{Client: client, Each: append(hour(100), pause)},
			firstly(Reply{Status: 503, RetryAfter: 50 * time.Minute}))
		begin := time.Now()
		_, err := calls.send(f, "key", time.Minute)
		require.NoError(t, err)
		var all sync.WaitGroup
		for range 3 { // some before Redis has the pause, some after
			all.Go(func() {
				_, err := calls.send(f, "key", 2*time.Hour)
				assert.NoError(t, err)
				assert.InDelta(t, time.Minute, time.Since(begin), float64(6*time.Second))
			})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		require.NoError(t, limit.New(rratelimiter.New(f.Conn), "api:key", pause).Pause(t.Context(), 0))
		all.Wait()
	})
}

// The process of the response pauses, before and after Redis fails, and the response does not wait for
// Redis.
func testPauseInAnOutage(t *testing.T, m Middleware) {
	refuse := func(f *redistest.Fixture) { f.Redis.SetError("no pause") }
	for name, c := range map[string]struct {
		fail  func(f *redistest.Fixture)
		later bool // when Redis has the pause
	}{
		"an error":       {refuse, false},
		"no answers":     {func(f *redistest.Fixture) { f.Latency.Store(int64(time.Minute)) }, false},
		"a later outage": {refuse, true},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				reply := firstly(Reply{Status: 429, RetryAfter: 7 * time.Second})
				policies := []limit.Policy{limit.FixedWindow{Permits: 10, Interval: time.Second}, limit.Pause{Most: time.Minute}}
				calls := m.Client(Settings{Client: client, Each: policies, Mode: limit.Open}, func() Reply {
					if !c.later {
						c.fail(f)
					}
					return reply()
				})
				begin := time.Now()
				got, err := calls.send(f, "key", time.Minute)
				require.NoError(t, err)
				assert.Equal(t, 429, got.Status)
				assert.Zero(t, time.Since(begin))
				if c.later {
					time.Sleep(time.Second)
					c.fail(f)
				}
				got, err = calls.send(f, "key", time.Minute)
				require.NoError(t, err)
				assert.Equal(t, 200, got.Status)
				assert.GreaterOrEqual(t, time.Since(begin), 7*time.Second)
				f.Latency.Store(0)
				f.Redis.SetError("")
				time.Sleep(2 * time.Minute)
			})
		})
	}
}
