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
		var asked atomic.Int64
		reply := func() Reply {
			if asked.Add(1) == 1 {
				return Reply{Status: 503, RetryAfter: 7 * time.Second}
			}
			return fine()
		}
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
		for i, got := range at {
			assert.Equal(t, 7*time.Second+time.Duration(i)*100*time.Millisecond, got.Truncate(100*time.Millisecond), "%v", at)
		}
	})
}

// The process of the response pauses alone, and the response does not wait for Redis.
func testPauseInAnOutage(t *testing.T, m Middleware) {
	for name, fail := range map[string]func(f *redistest.Fixture){
		"an error":   func(f *redistest.Fixture) { f.Redis.SetError("no pause") },
		"no answers": func(f *redistest.Fixture) { f.Latency.Store(int64(time.Minute)) },
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				replies := []Reply{{Status: 429, RetryAfter: 7 * time.Second}, fine()}
				policies := []limit.Policy{limit.FixedWindow{Permits: 10, Interval: time.Second}, limit.Pause{Most: time.Minute}}
				calls := m.Client(Settings{Client: client, Each: policies, Mode: limit.Open}, func() Reply {
					fail(f)
					next := replies[0]
					replies = replies[1:]
					return next
				})
				begin := time.Now()
				got, err := calls.send(f, "key", time.Minute)
				require.NoError(t, err)
				assert.Equal(t, 429, got.Status)
				assert.Zero(t, time.Since(begin))
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
