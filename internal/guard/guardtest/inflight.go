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
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/limit"
)

// places are two at once and ten an hour.
func places() []limit.Policy { return append(hour(10), limit.InFlight{Permits: 2, Lease: time.Minute}) }

// leftOf returns the free permits and places of the key "one".
func leftOf(f *redistest.Fixture, client *rratelimiter.Client) [2]int64 {
	synctest.Wait() // places return in the background
	each, err := limit.New(client, "api:one", places()...).Peek(f.Context())
	require.NoError(f, err)
	return [2]int64{each[0].Remaining, each[1].Remaining}
}

func testPlaces(t *testing.T, m Middleware) {
	for name, c := range map[string]struct {
		end  func(ctx context.Context)
		left int64
	}{
		"it returns":         {func(context.Context) {}, 9},
		"it panics":          {func(context.Context) { panic("a handler") }, 9},
		"it settles for 0":   {func(ctx context.Context) { assert.NoError(t, m.Settle(ctx, 0)) }, 10},
		"it settles for 1":   {func(ctx context.Context) { assert.NoError(t, m.Settle(ctx, 1)) }, 9},
		"it settles for 4":   {func(ctx context.Context) { assert.NoError(t, m.Settle(ctx, 4)) }, 6},
		"a panic after that": {func(ctx context.Context) { assert.NoError(t, m.Settle(ctx, 4)); panic("a handler") }, 6},
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				ctx, cancel := context.WithCancel(t.Context())
				server := m.Server(Settings{Client: client, Each: places(), Handler: func(ctx context.Context) {
					assert.Equal(t, [2]int64{9, 1}, leftOf(f, client))
					cancel() // the client has gone
					c.end(ctx)
				}})
				func() {
					defer func() { _ = recover() }()
					server(ctx, "one")
				}()
				assert.Equal(t, [2]int64{c.left, 2}, leftOf(f, client))
			})
		})
	}
}

func testPlaceOfALongRequest(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		server := m.Server(Settings{Client: client, Each: places(), Handler: func(context.Context) {
			time.Sleep(time.Minute + time.Second)
		}})
		var all sync.WaitGroup
		for _, after := range []time.Duration{31 * time.Second, 31 * time.Second, time.Second} {
			all.Go(func() { assert.Equal(t, 200, server.get(f).Status) })
			time.Sleep(after)
		}
		assert.Equal(t, [2]int64{7, 0}, leftOf(f, client), "the first has ended after its lease")
		all.Wait()
		assert.Equal(t, [2]int64{7, 2}, leftOf(f, client))
	})
}

func testManyOnPlaces(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		var running, most atomic.Int64
		server := m.Server(Settings{Client: client, Wait: time.Minute,
			Each: []limit.Policy{limit.InFlight{Permits: 2, Lease: time.Minute}},
			Handler: func(context.Context) {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(100 * time.Millisecond)
				running.Add(-1)
			}})
		begin := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { assert.Equal(t, 200, server.get(f).Status) })
		}
		all.Wait()
		assert.EqualValues(t, 2, most.Load())
		assert.Equal(t, 5*time.Second, time.Since(begin), "each place is taken again at once")
	})
}

// testWaitForAPlace: the RetryAfter of a second is a guess, and another process returns a place earlier.
func testWaitForAPlace(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		server := m.Server(Settings{Client: client, Each: places(), Wait: 500 * time.Millisecond})
		var taken limit.Taken
		require.NoError(t, taken.Acquire(t.Context(), 2, limit.New(rratelimiter.New(f.Conn), "api:one", places()...)))
		begin := time.Now()
		reply := server.get(f)
		assert.Equal(t, 429, reply.Status)
		assert.Equal(t, time.Second, reply.RetryAfter)
		assert.Equal(t, 500*time.Millisecond, time.Since(begin))
		time.AfterFunc(300*time.Millisecond, func() { assert.NoError(t, taken.Settle(t.Context(), 2)) })
		assert.Equal(t, 200, server.get(f).Status)
		assert.InDelta(t, 800, time.Since(begin).Milliseconds(), 100)
	})
}

func testShareOfPlaces(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		long := make(chan time.Duration, 1)
		server := m.Server(Settings{Client: client, Mode: 0.5, Deadline: 50 * time.Millisecond,
			Each: []limit.Policy{limit.InFlight{Permits: 5, Lease: time.Minute}},
			Handler: func(ctx context.Context) {
				select {
				case d := <-long:
					time.Sleep(d)
				default:
				}
				if o, _ := m.FromContext(ctx); o.Local {
					assert.EqualValues(t, 2, o.Decision.Limit)
				}
			}})
		defer slow(f)()
		for range 20 {
			assert.Equal(t, 200, server.get(f).Status, "one after another")
			synctest.Wait()
		}
		var all sync.WaitGroup
		for _, d := range []time.Duration{10 * time.Second, 90 * time.Second} {
			long <- d
			all.Go(func() { assert.Equal(t, 200, server.get(f).Status) })
			synctest.Wait()
		}
		reply := server.get(f)
		assert.Equal(t, 429, reply.Status)
		assert.Equal(t, time.Second, reply.RetryAfter)
		time.Sleep(11 * time.Second)
		assert.Equal(t, 200, server.get(f).Status, "the first has returned its place")
		time.Sleep(50 * time.Second)
		for range 2 {
			long <- time.Minute
			all.Go(func() { assert.Equal(t, 200, server.get(f).Status, "the lease of the second has ended") })
			synctest.Wait()
		}
		time.Sleep(40 * time.Second)
		assert.Equal(t, 429, server.get(f).Status, "which returns nothing of others")
		all.Wait()
	})
}

// testPlaceInAnOutage: the Client repeats a return until the lease has ended, and then reports it. The client of the
// request waits only if no place is free, for a deadline.
func testPlaceInAnOutage(t *testing.T, m Middleware) {
	for permits, waits := range map[int64]time.Duration{1: defaultDeadline, 2: 0} {
		for lasts, failures := range map[time.Duration]int64{10 * time.Second: 0, 2 * time.Minute: 1} {
			Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
				var failed atomic.Int64
				end := func() {}
				p := limit.InFlight{Permits: permits, Lease: time.Minute}
				server := m.Server(Settings{Client: client, Each: []limit.Policy{p}, OnSettleError: func(err error) {
					assert.ErrorIs(t, err, limit.ErrLost)
					failed.Add(1)
				}, Handler: func(context.Context) {
					f.Latency.Store(int64(10 * time.Second))
					end = func() { f.Latency.Store(0) }
				}})
				begin := time.Now()
				assert.Equal(t, 200, server.get(f).Status)
				assert.Equal(t, waits, time.Since(begin), "%d places", permits)
				time.Sleep(lasts)
				end()
				time.Sleep(15 * time.Second)
				assert.Equal(t, failures, failed.Load(), "%v", lasts)
				each, err := limit.New(client, "api:one", p).Peek(f.Context())
				require.NoError(t, err)
				assert.Equal(t, permits, each[0].Remaining)
			})
		}
	}
}

// testPlaceBeforeTheEnd: a client that has its response can send the next request, also to another server.
func testPlaceBeforeTheEnd(t *testing.T, m Middleware) {
	for _, latency := range []time.Duration{0, 20 * time.Millisecond} {
		Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
			f.Latency.Store(int64(latency))
			var servers []Server
			for _, c := range []*rratelimiter.Client{client, rratelimiter.New(f.Conn)} {
				servers = append(servers, m.Server(Settings{Client: c,
					Each: []limit.Policy{limit.InFlight{Permits: 1, Lease: time.Minute}}}))
			}
			for i := range 200 {
				require.Equal(t, 200, servers[i%2].get(f).Status, "%v, request %d", latency, i)
			}
		})
	}
}

// testPlaceAfterPanic: a callback panics after the grant.
func testPlaceAfterPanic(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		server := m.Server(Settings{Client: client, Each: places(), Report: func(limit.Outcome) { panic("a callback") }})
		for range 3 {
			assert.Panics(t, func() { server(t.Context(), "one") })
		}
		assert.Equal(t, [2]int64{10, 2}, leftOf(f, client))
	})
}

// testRenewedPlace: a request holds its place for longer than its lease, and loses it in an outage that lasts as long.
func testRenewedPlace(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		long := make(chan time.Duration, 1)
		var lost atomic.Int64
		server := m.Server(Settings{Client: client,
			Each: []limit.Policy{limit.InFlight{Permits: 1, Lease: 15 * time.Second, Renew: true}},
			OnSettleError: func(err error) {
				assert.ErrorIs(t, err, limit.ErrLost)
				lost.Add(1)
			},
			Handler: func(context.Context) { time.Sleep(<-long) }})
		var all sync.WaitGroup
		long <- 95 * time.Second
		all.Go(func() { assert.Equal(t, 200, server.get(f).Status) })
		for range 9 {
			time.Sleep(10 * time.Second)
			assert.Equal(t, 429, server.get(f).Status)
		}
		all.Wait()
		long <- time.Minute
		all.Go(func() { assert.Equal(t, 200, server.get(f).Status) })
		time.Sleep(time.Second)
		f.Redis.SetError("LOADING")
		time.Sleep(20 * time.Second)
		f.Redis.SetError("")
		assert.EqualValues(t, 1, lost.Load())
		time.Sleep(10 * time.Second)
		long <- 0
		assert.Equal(t, 200, server.get(f).Status, "it is not renewed again")
		all.Wait()
		assert.EqualValues(t, 1, lost.Load())
	})
}

// testPlaceAfterAnOutage: requests that end in a short outage return their places after it, also those that
// have settled.
func testPlaceAfterAnOutage(t *testing.T, m Middleware) {
	for i := range 3 {
		settles, begins := i == 1, i == 2 // the outage, with the first return
		Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
			long := false
			server := m.Server(Settings{Client: client, Each: places(), Deadline: 50 * time.Millisecond,
				OnSettleError: func(err error) { assert.True(t, settles, err) },
				Handler: func(ctx context.Context) {
					if long {
						time.Sleep(time.Second)
					}
					if long && settles {
						assert.NoError(t, m.Settle(ctx, 1))
					}
				}})
			assert.Equal(t, 200, server.get(f).Status)
			synctest.Wait()
			long = true
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() { assert.Equal(t, 200, server.get(f).Status) })
			}
			synctest.Wait()
			f.Redis.SetError("LOADING")
			if !begins {
				time.Sleep(100 * time.Millisecond)
				assert.Equal(t, 503, server.get(f).Status)
			}
			all.Wait()
			time.Sleep(time.Second)
			f.Redis.SetError("")
			time.Sleep(2 * time.Second)
			assert.Equal(t, [2]int64{7, 2}, leftOf(f, client), "settles: %v", settles)
		})
	}
}

func testPlacesOfAClient(t *testing.T, m Middleware) {
	Run(t, func(t *testing.T, f *redistest.Fixture, client *rratelimiter.Client) {
		send := m.Client(Settings{Client: client, Each: places()}, func() Reply {
			assert.Equal(t, [2]int64{9, 1}, leftOf(f, client))
			return Reply{Status: 200}
		})
		_, err := send.send(f, "one", time.Second)
		require.NoError(t, err)
		assert.Equal(t, [2]int64{9, 2}, leftOf(f, client))
	})
}
