package limit

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/memredis"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// steady returns the policies that grant one permit at once, and then so many in a second.
func steady(permits int64) []Policy {
	return []Policy{
		TokenBucket{1, permits, time.Second}, LeakyBucket{1, permits, time.Second},
		Smooth{Permits: permits, Interval: time.Second, Burst: time.Millisecond},
	}
}

// exact returns a Client whose waiters ask on time.
func (f *fixture) exact() *rratelimiter.Client {
	return rratelimiter.New(f.Conn, rratelimiter.WithWaitJitter(0))
}

// grantTimes has callers request a permit at the same moment, and returns when they get one, in order.
func grantTimes(t *testing.T, callers []*Limiter) (at []time.Duration) {
	start := time.Now()
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, l := range callers {
		all.Go(func() {
			assert.NoError(t, l.Acquire(t.Context(), 1))
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(start))
		})
	}
	all.Wait()
	return at
}

// TestAcquire_CallsAreLate_KeepThePace: of a policy without a burst. A call of a waiter is late by its
// way to Redis and by its jitter.
func TestAcquire_CallsAreLate_KeepThePace(t *testing.T) {
	t.Parallel()
	for trip, rates := range map[time.Duration][]int64{
		0: {1000}, time.Millisecond: {200}, 4 * time.Millisecond: {200, 1000},
	} {
		for _, rate := range rates {
			policies := append(steady(rate), Smooth{Permits: rate, Interval: time.Second, WarmUp: time.Millisecond},
				Smooth{Permits: rate, Interval: time.Second, WarmUp: 100 * time.Millisecond})
			eachPolicy(t, policies, func(t *testing.T, f *fixture, p Policy) {
				f.Latency.Store(int64(trip))
				l := New(rratelimiter.New(f.Conn, rratelimiter.WithServerTime()), "name", p)
				at := grantTimes(t, slices.Repeat([]*Limiter{l}, int(rate/2)))
				steady := at[rate/5:] // a Smooth is warm
				pace := float64(len(steady)-1) / (steady[len(steady)-1] - steady[0]).Seconds() / float64(rate)
				assert.InDelta(t, 1, pace, 0.05, "%+v, trip %v", p, trip)
			})
		}
	}
}

// TestAcquire_FullBucket_CountsFromTheCall: permits that came free while no caller waited are not
// granted on top of the capacity.
func TestAcquire_FullBucket_CountsFromTheCall(t *testing.T) {
	eachPolicy(t, steady(10), func(t *testing.T, f *fixture, p Policy) {
		l := New(f.exact(), "name", p)
		require.NoError(t, l.Acquire(t.Context(), 1))
		time.Sleep(105 * time.Millisecond)
		at := grantTimes(t, slices.Repeat([]*Limiter{l}, 3))
		assert.Zero(t, at[0])
		// A Smooth has stored a millisecond each time.
		assert.InDelta(t, 100*time.Millisecond, at[1], float64(2*time.Millisecond))
		assert.InDelta(t, 200*time.Millisecond, at[2], float64(2*time.Millisecond))
	})
}

// TestAcquire_LeakyBucket_IsEvenlySpaced: TryAcquire may fill the bucket at once, and waiters leave when
// all that was taken before has leaked.
func TestAcquire_LeakyBucket_IsEvenlySpaced(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(f.exact(), "name", LeakyBucket{10, 2, time.Second})
		assert.Equal(t, []time.Duration{0, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond},
			grantTimes(t, slices.Repeat([]*Limiter{l}, 4)))
		require.NoError(t, l.Reset(t.Context()))

		require.NoError(t, l.Acquire(t.Context(), 1))
		synctest.Wait()
		start := time.Now()
		assert.False(t, redistest.Result(t, l.TryAcquire, 10))
		assert.True(t, redistest.Result(t, l.TryAcquire, 9))
		assert.False(t, tryWithin(t, l, 1, 4*time.Second))
		assert.Zero(t, time.Since(start), "it cannot be served in time")
		require.NoError(t, l.Acquire(t.Context(), 10))
		assert.Equal(t, 5*time.Second, time.Since(start), "the level was 10")
	})
}

// TestWithDenialCache_LeakyBucketHasWaiters_OthersAreGranted: a caller that waits gets its permits
// later than one that does not.
func TestWithDenialCache_LeakyBucketHasWaiters_OthersAreGranted(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		l := New(rratelimiter.New(f.Conn, rratelimiter.WithDenialCache(time.Minute)), "name",
			LeakyBucket{10, 1, time.Hour})
		require.NoError(t, l.Acquire(t.Context(), 1))
		ctx, leave := context.WithCancel(t.Context())
		var waiter sync.WaitGroup
		waiter.Go(func() { assert.ErrorIs(t, l.Acquire(ctx, 1), context.Canceled) })
		synctest.Wait()
		assert.True(t, redistest.Result(t, l.TryAcquire, 9))
		leave()
		waiter.Wait()
	})
}

// TestTakeWithin_EachPolicy_HasTheNumbers after a wait, as Peek reports them, and if the permits cannot be free in
// time.
func TestTakeWithin_EachPolicy_HasTheNumbers(t *testing.T) {
	policies := []Policy{FixedWindow{10, time.Minute, false}, FixedWindow{10, time.Minute, true},
		SlidingWindow{10, time.Minute, 0}, SlidingLog{10, time.Minute}, TokenBucket{10, 10, time.Minute},
		InFlight{Permits: 10, Lease: time.Minute}}
	eachPolicy(t, policies, func(t *testing.T, f *fixture, p Policy) {
		l := New(f.client, "x", p)
		f.RequireGranted(l, 10)
		time.Sleep(time.Second)
		denied, err := l.TakeWithin(t.Context(), 1, 2*time.Millisecond)
		require.NoError(t, err)
		peeked := redistest.Peek(t, l)[0]
		peeked.Allowed = false
		if _, held := p.(InFlight); held { // when a place returns is a guess
			assert.Positive(t, denied.RetryAfter)
			peeked.RetryAfter = denied.RetryAfter
		}
		assert.Equal(t, peeked, denied)

		d, err := l.TakeWithin(t.Context(), 1, time.Hour)
		require.NoError(t, err)
		want := redistest.Peek(t, l)[0]
		want.Allowed, want.RetryAfter = true, 0
		assert.Equal(t, want, d)
	})
}

// TestTryAcquireWithin_Bucket_WaitsForItsTime: or returns false at once if that is too late.
func TestTryAcquireWithin_Bucket_WaitsForItsTime(t *testing.T) {
	eachPolicy(t, steady(10), func(t *testing.T, f *fixture, p Policy) {
		l := New(f.exact(), "name", p)
		for range 2 { // Smooth's first costs nothing
			require.NoError(t, l.Acquire(t.Context(), 1))
		}
		start := time.Now()
		assert.False(t, tryWithin(t, l, 1, 50*time.Millisecond))
		assert.Zero(t, time.Since(start), "at once")
		assert.True(t, tryWithin(t, l, 1, 101*time.Millisecond))
		assert.InDelta(t, 100*time.Millisecond, time.Since(start), float64(time.Millisecond))
		assert.True(t, tryWithin(t, l, 1, math.MaxInt64), "the longest timeout is no shorter")
	})
}

// inLoops has callers wait for permits in loops, each time for at most a timeout. It returns the permits of a second,
// after a third of the time to begin with.
func inLoops(t *testing.T, lasts time.Duration, callers int, timeout time.Duration, l *Limiter) float64 {
	ctx, end := context.WithCancel(t.Context())
	time.AfterFunc(lasts, end)
	var mu sync.Mutex
	var from, last time.Time
	granted := 0
	var all sync.WaitGroup
	begin := time.Now().Add(lasts / 3)
	for range callers {
		all.Go(func() {
			for ctx.Err() == nil {
				if ok, _ := l.TryAcquireWithin(ctx, 1, timeout); !ok {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				mu.Lock()
				switch now := time.Now(); {
				case now.Before(begin):
				case from.IsZero():
					from = now
				case now.After(from):
					granted, last = granted+1, now
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return float64(granted) / last.Sub(from).Seconds()
}

// TestAcquire_LongLinks_KeepThePace: of waiters whose calls take longer than a permit, also in a queue that
// is longer than their timeouts.
func TestAcquire_LongLinks_KeepThePace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rate    int64
		trip    time.Duration
		callers int
		timeout time.Duration
		delta   float64
		quick   int // seconds
	}{
		{50, 12, 8, time.Minute, 0.05, 1}, {50, 20, 8, time.Minute, 0.05, 1}, {1000, 20, 256, time.Minute, 0.05, 1},
		{1000, 100, 256, time.Minute, 0.05, 3}, {20_000, 6, 256, time.Minute, 0.05, 1},
		{200, 20, 256, time.Second, 0.2, 3}, // more callers than it serves in time
	} {
		for clock, opts := range map[string][]rratelimiter.Option{"host": nil, "server": {rratelimiter.WithServerTime()}} {
			eachPolicy(t, steady(test.rate), func(t *testing.T, f *fixture, p Policy) {
				f.Latency.Store(int64(test.trip * time.Millisecond))
				l := New(rratelimiter.New(f.Conn, opts...), "name", p)
				pace := inLoops(t, forSeconds(test.quick, 3), test.callers, test.timeout, l)
				assert.InDelta(t, 1, pace/float64(test.rate), test.delta, "%+v, time of the %s", test, clock)
			})
		}
	}
}

// TestAcquire_OneCallerInALoop_KeepsThePace: it does not wait when a permit comes free before it asks, so
// that a spread of the calls would cost it permits.
func TestAcquire_OneCallerInALoop_KeepsThePace(t *testing.T) {
	t.Parallel()
	for _, rate := range []int64{100, 1000} {
		eachPolicy(t, steady(rate), func(t *testing.T, f *fixture, p Policy) {
			f.Latency.Store(int64(30 * time.Microsecond))
			pace := inLoops(t, forSeconds(1, 3), 1, time.Minute, New(f.client, "name", p))
			assert.InDelta(t, 1, pace/float64(rate), 0.05, "%+v", p)
		})
	}
}

// randomTrip is a connection whose commands take a random time. longest is the most that one took.
type randomTrip struct {
	net.Conn
	mu     *sync.Mutex
	random *rand.Rand
	most   int64

	longest *atomic.Int64
}

func (c randomTrip) Write(p []byte) (int, error) {
	c.mu.Lock()
	d := c.random.Int64N(c.most + 1)
	if c.random.IntN(10) == 0 {
		d *= 4
	}
	c.longest.Store(max(c.longest.Load(), d))
	c.mu.Unlock()
	time.Sleep(time.Duration(d))
	return c.Conn.Write(p)
}

// heldGrant is a grant that a caller got.
type heldGrant struct {
	at      time.Duration
	permits int64
	waiter  bool
}

// TestBuckets_RandomCallers_KeepTheBound: Capacity + rate x (t + the time of a call), in every span t.
func TestBuckets_RandomCallers_KeepTheBound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(redistest.Deep(5, 60)) {
		random := rand.New(rand.NewPCG(seed, 7))
		capacity := []int64{1, 2, 5, 50}[random.IntN(4)]
		rate := []int64{20, 200, 1000, 5000}[random.IntN(4)]
		trip := []time.Duration{0, time.Millisecond, 3 * time.Millisecond, 9 * time.Millisecond}[random.IntN(4)]
		joined := random.IntN(3)
		kind := random.IntN(3)
		withRedis(t, func(t *testing.T, f *fixture) {
			var p Policy = TokenBucket{capacity, rate, time.Second}
			most := float64(capacity) + 1e-3
			var longest atomic.Int64
			switch kind {
			case 1:
				p = LeakyBucket{capacity, rate, time.Second}
			case 2:
				burst := time.Millisecond * time.Duration(max(1, 1000*capacity/rate))
				p = Smooth{Permits: rate, Interval: time.Second, Burst: burst}
				most += p.(Smooth).curve().most + 2 - float64(capacity) // a microsecond or so
			}
			start := time.Now()
			var mu sync.Mutex
			var held []heldGrant
			ctx := redistest.Timeout(t, time.Second/2)
			var callers sync.WaitGroup
			for range 3 {
				var rmu sync.Mutex
				r := rand.New(rand.NewPCG(seed, random.Uint64()))
				conn, err := memredis.ConnectThrough(f.Redis,
					func(c net.Conn) net.Conn { return randomTrip{c, &rmu, r, int64(trip), &longest} })
				require.NoError(t, err)
				t.Cleanup(conn.Close)
				client := rratelimiter.New(conn, rratelimiter.WithServerTime())
				l := New(client, "{name}", p)
				switch joined {
				case 1:
					l = Join(l, New(client, "{name}w", FixedWindow{max(rate/20, capacity), 50 * time.Millisecond, false}))
				case 2:
					initial := rratelimiter.Rate{Permits: max(rate/10, capacity), Interval: 100 * time.Millisecond}
					quota := client.Limiter("{name}q", rratelimiter.InitialRate(initial))
					l = Join(quota, l)
				}
				for i := range 4 {
					r := rand.New(rand.NewPCG(seed, random.Uint64()))
					callers.Go(func() {
						for ctx.Err() == nil {
							n := 1 + r.Int64N(min(3, capacity))
							if kind == 2 {
								n = 1
							}
							var ok bool
							waiter := true
							switch kind := r.IntN(4); {
							case i == 3 && kind > 0:
								ok, _ = l.TryAcquire(ctx, n)
								waiter = false
								time.Sleep(time.Duration(r.Int64N(int64(5 * time.Millisecond))))
							case kind == 0:
								ok, _ = l.TryAcquireWithin(ctx, n, time.Duration(r.Int64N(int64(30*time.Millisecond))))
								time.Sleep(time.Duration(r.Int64N(int64(3 * time.Millisecond))))
							default:
								ok = l.Acquire(ctx, n) == nil
							}
							if ok {
								mu.Lock()
								held = append(held, heldGrant{time.Since(start), n, waiter})
								mu.Unlock()
							}
						}
					})
				}
			}
			callers.Wait()
			// A command may wait for another one on its connection, and for a timer.
			call := 10*time.Millisecond + 2*time.Duration(longest.Load())
			most += float64(rate) * call.Seconds()
			about := fmt.Sprintf("seed %d %T %+v joined %d, trip %v: %d grants", seed, p, p, joined, trip, len(held))
			var level, worst, early float64 // early: the level before a waiter
			var last time.Duration
			for _, g := range held {
				level = max(0, level-float64(rate)*(g.at-last).Seconds())
				if g.waiter {
					early = max(early, level)
				}
				level += float64(g.permits)
				last, worst = g.at, max(worst, level)
			}
			assert.LessOrEqual(t, worst, most, about)
			if kind == 1 {
				assert.LessOrEqual(t, early, float64(rate)*call.Seconds()+1e-3, "leaky waiters, "+about)
			}
			require.NotEmpty(t, held, about)
		})
	}
}

// TestAcquire_OneCallIsSlow_NoBurstFollows: a call of ten seconds, or one that fails then, is no measure for
// the time of the next calls, so what came free meanwhile does not count.
func TestAcquire_OneCallIsSlow_NoBurstFollows(t *testing.T) {
	t.Parallel()
	for _, failure := range []string{"", "ERR out of order"} {
		eachPolicy(t, steady(200), func(t *testing.T, f *fixture, p Policy) {
			f.Latency.Store(int64(20 * time.Millisecond))
			l := New(f.client, "name", p)
			ctx := redistest.Timeout(t, 13*time.Second)
			var mu sync.Mutex
			var at []time.Duration
			start := time.Now()
			var callers sync.WaitGroup
			for range 256 {
				callers.Go(func() {
					for ctx.Err() == nil {
						if l.Acquire(ctx, 1) != nil {
							time.Sleep(time.Millisecond)
							continue
						}
						mu.Lock()
						at = append(at, time.Since(start))
						mu.Unlock()
					}
				})
			}
			time.Sleep(time.Second)
			f.Latency.Store(int64(10 * time.Second))
			f.Redis.SetError(failure)
			time.Sleep(25 * time.Millisecond)
			f.Latency.Store(int64(20 * time.Millisecond))
			time.AfterFunc(10*time.Second, func() { f.Redis.SetError("") })
			callers.Wait()
			for from := range at {
				to := from
				for to < len(at) && at[to]-at[from] <= 100*time.Millisecond {
					to++
				}
				// 100 ms, twice the time of a call, and as much for the time between grant and reply.
				require.LessOrEqual(t, to-from, 3+int(200*0.18), "%T %s: from %v", p, failure, at[from])
			}
			assert.Greater(t, at[len(at)-1], 12*time.Second)
		})
	}
}
