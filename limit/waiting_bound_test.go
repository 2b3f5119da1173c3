package limit

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/memredis"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

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
