package guardtest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/outage"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// A request is denied at once if its permits are not free in time.
func testWait(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		served := 0
		server := m.Server(Settings{
			Client: client, Each: []limit.Policy{limit.FixedWindow{Permits: 1, Interval: 3 * time.Second}},
			Wait: 2 * time.Second, Handler: func(context.Context) { served++ },
		})
		require.Equal(t, 200, server.get(f).Status)
		begin := time.Now()
		reply := server.get(f)
		assert.Equal(t, 429, reply.Status)
		assert.Equal(t, 3*time.Second, reply.RetryAfter)
		assert.Zero(t, time.Since(begin))
		time.Sleep(1500 * time.Millisecond)
		assert.Equal(t, 200, server.get(f).Status)
		assert.Equal(t, 3*time.Second, time.Since(begin))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		time.Sleep(1500 * time.Millisecond)
		assert.NotEqual(t, 200, server(ctx, "one").Status, "its context ends before")
		assert.Equal(t, 2, served)
	})
}

// Further requests are denied as without Wait.
func testMaxWaiting(t *testing.T, m Middleware) {
	window := limit.FixedWindow{Permits: 1, Interval: 5 * time.Second}
	for name, c := range map[string]struct {
		max, want int
		outage    bool
	}{
		"by default": {0, defaultMaxWaiting, false}, "in the queue of a limiter": {3, 3, false},
		"in an outage": {3, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				if c.outage {
					f.Redis.SetError("LOADING")
				}
				server := m.Server(Settings{
					Limiter: limit.New(client, "a", window), Wait: 3 * time.Hour, MaxWaiting: c.max, Mode: 1,
				})
				require.Equal(t, 200, server.get(f).Status)
				var waited, denied atomic.Int64
				var all sync.WaitGroup
				ctx, leave := context.WithCancel(t.Context())
				for range c.want + 20 {
					all.Go(func() {
						begin := time.Now()
						reply := server(ctx, "one")
						if time.Since(begin) > 0 {
							waited.Add(1)
						} else if assert.Equal(t, 429, reply.Status) && assert.Equal(t, 5*time.Second, reply.RetryAfter) {
							denied.Add(1)
						}
					})
				}
				time.Sleep(100 * time.Millisecond)
				assert.EqualValues(t, 20, denied.Load())
				leave()
				all.Wait()
				assert.EqualValues(t, c.want, waited.Load())
				// The places of callers that have left are free again.
				begin := time.Now()
				assert.Equal(t, 200, server.get(f).Status)
				assert.Positive(t, time.Since(begin))
			})
		})
	}
}

// By default any number of calls waits, for permits or for the end of a pause.
func testMaxWaitingToSend(t *testing.T, m Middleware) {
	paused := Reply{Status: 429, RetryAfter: 7 * time.Second}
	for name, c := range map[string]struct {
		reply Reply
		s     Settings
		want  int64
	}{
		"bounded":             {Reply{Status: 200}, Settings{MaxWaiting: 2}, 2},
		"bounded with a wait": {Reply{Status: 200}, Settings{MaxWaiting: 2, Wait: time.Minute}, 2},
		"bounded in a pause":  {paused, Settings{MaxWaiting: 2}, 2},
		"unbounded":           {Reply{Status: 200}, Settings{}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				c.s.Client = client
				c.s.Each = []limit.Policy{limit.FixedWindow{Permits: 1, Interval: 2 * time.Second}}
				calls := m.Client(c.s, func() Reply { return c.reply })
				_, _ = calls.send(f, "one", time.Minute)
				var sent, denied atomic.Int64
				var all sync.WaitGroup
				for range 5 {
					all.Go(func() {
						reply, err := calls.send(f, "one", 2*time.Minute)
						if err == nil {
							assert.Equal(t, c.reply.Status, reply.Status)
							sent.Add(1)
						} else if assert.ErrorIs(t, err, m.ErrNotSent) && assert.ErrorIs(t, err, outage.ErrTooManyWaiting) {
							denied.Add(1)
						}
					})
					synctest.Wait()
				}
				assert.Equal(t, 5-c.want, denied.Load())
				all.Wait()
				assert.Equal(t, c.want, sent.Load())
			})
		})
	}
}
