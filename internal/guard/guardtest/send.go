package guardtest

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
	"github.com/rratelimiter/rratelimiter/limit"
)

func fine() Reply { return Reply{Status: 200} }

func testSentInOrder(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		second := []limit.Policy{limit.FixedWindow{Permits: 1, Interval: time.Second}}
		calls := m.Client(Settings{Client: client, Each: second}, fine)
		begin := time.Now()
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				_, err := calls.send(f, "one", time.Minute)
				assert.NoError(t, err)
				assert.Equal(t, time.Duration(i)*time.Second, time.Since(begin).Truncate(time.Second), "call %d", i)
			})
		}
		_, err := calls.send(f, "two", time.Minute)
		assert.NoError(t, err)
		assert.Zero(t, time.Since(begin), "another key")
		all.Wait()
	})
}

func testNotSent(t *testing.T, m Middleware) {
	for name, wait := range map[string]time.Duration{"context": 0, "wait": time.Second} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				sent := 0
				calls := m.Client(Settings{Client: client, Each: hour(1), Wait: wait}, func() Reply { sent++; return fine() })
				begin := time.Now()
				_, err := calls.send(f, "one", time.Minute)
				require.NoError(t, err)
				_, err = calls.send(f, "one", time.Minute)
				assert.ErrorIs(t, err, m.ErrNotSent)
				assert.Equal(t, wait == 0, errors.Is(err, context.DeadlineExceeded))
				assert.Zero(t, time.Since(begin))
				assert.Equal(t, 1, sent)
			})
		})
	}
}

func testSendInShadow(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		var results []limit.Result
		calls := m.Client(Settings{
			Client: client, Each: hour(1), Shadow: true, Wait: 2 * time.Hour,
			Report: func(o limit.Outcome) { results = append(results, o.Result) },
		}, func() Reply { return Reply{Status: 429, RetryAfter: 9 * time.Second} })
		begin := time.Now()
		for range 2 {
			reply, err := calls.send(f, "one", 3*time.Hour)
			assert.NoError(t, err)
			assert.Equal(t, 429, reply.Status)
		}
		assert.Equal(t, []limit.Result{limit.Acquired, limit.Rejected}, results)
		assert.Zero(t, time.Since(begin))
	})
}

// Only requests of the same key wait for the end of a pause. The caller gets the reply unchanged.
func testPause(t *testing.T, m Middleware) {
	for name, c := range map[string]struct {
		reply Reply
		pause time.Duration
	}{
		"over the limit": {Reply{Status: 429, RetryAfter: 7 * time.Second}, 7 * time.Second},
		"unavailable":    {Reply{Status: 503, RetryAfter: 7 * time.Second}, 7 * time.Second},
		"a year":         {Reply{Status: 429, RetryAfter: 365 * 24 * time.Hour}, time.Minute},
		"none":           {Reply{Status: 429}, 0},
		"another status": {Reply{Status: 500, RetryAfter: 7 * time.Second}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				reply := c.reply
				many := []limit.Policy{limit.TokenBucket{Capacity: 100, Refill: 1, Interval: time.Hour}}
				calls := m.Client(Settings{Client: client, Each: many}, func() Reply { return reply })
				begin := time.Now()
				got, err := calls.send(f, "one", time.Minute)
				require.NoError(t, err)
				assert.Equal(t, c.reply.Status, got.Status)
				reply = fine()
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() {
						got, err := calls.send(f, "one", 2*time.Hour)
						assert.NoError(t, err)
						assert.Equal(t, 200, got.Status)
						assert.Equal(t, c.pause, time.Since(begin))
					})
				}
				_, err = calls.send(f, "two", time.Minute)
				require.NoError(t, err)
				assert.Zero(t, time.Since(begin), "another key")
				if c.pause > 0 {
					_, err = calls.send(f, "one", time.Second)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					assert.Zero(t, time.Since(begin), "it fails at once")
				}
				all.Wait()
			})
		})
	}
}

// The permit of the request that waits is released.
func testPauseWhileWaiting(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		replies := make(chan Reply, 2)
		// The next permit comes after 6 s, and the one after that after 12 s.
		bucket := []limit.Policy{limit.TokenBucket{Capacity: 1, Refill: 1, Interval: 6 * time.Second}}
		calls := m.Client(Settings{Client: client, Each: bucket}, func() Reply { return <-replies })
		begin := time.Now()
		var all sync.WaitGroup
		all.Go(func() { _, _ = calls.send(f, "one", time.Minute) })
		time.Sleep(time.Millisecond)
		all.Go(func() {
			_, err := calls.send(f, "one", time.Minute)
			assert.NoError(t, err)
			assert.Equal(t, 10*time.Second, time.Since(begin).Truncate(time.Second))
		})
		time.Sleep(time.Second - time.Millisecond)
		replies <- Reply{Status: 429, RetryAfter: 9 * time.Second}
		replies <- fine()
		all.Wait()
	})
}

// A client whose server denied a request by the same middleware passes at its first retry.
func testFirstRetry(t *testing.T, m Middleware) {
	for name, policy := range map[string]limit.Policy{
		"window": limit.FixedWindow{Permits: 1, Interval: 2500 * time.Millisecond},
		"log":    limit.SlidingLog{Permits: 1, Interval: 1100 * time.Millisecond},
		"bucket": limit.TokenBucket{Capacity: 1, Refill: 3, Interval: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				server := m.Server(Settings{Client: client, Each: []limit.Policy{policy}})
				// The client's own limit denies nothing, and has another name.
				many := limit.New(client, "calls", limit.TokenBucket{Capacity: 1000, Refill: 1, Interval: time.Hour})
				calls := m.Client(Settings{Limiter: many}, func() Reply { return server.get(f) })
				denied := 0
				for range 5 {
					time.Sleep(37 * time.Millisecond)
					reply, err := calls.send(f, "server", 30*time.Minute)
					require.NoError(t, err)
					if reply.Status == 429 {
						denied++
						reply, err = calls.send(f, "server", 30*time.Minute)
						require.NoError(t, err)
					}
					assert.Equal(t, 200, reply.Status)
				}
				assert.Equal(t, 4, denied)
			})
		})
	}
}
