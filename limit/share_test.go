package limit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// far is a client at half of a round trip from Redis, each way.
type far struct {
	rueidis.Client
	half time.Duration
}

func (f far) Do(ctx context.Context, c rueidis.Completed) rueidis.RedisResult {
	time.Sleep(f.half)
	defer time.Sleep(f.half)
	return f.Client.Do(ctx, c)
}

func (f far) DoMulti(ctx context.Context, c ...rueidis.Completed) []rueidis.RedisResult {
	time.Sleep(f.half)
	defer time.Sleep(f.half)
	return f.Client.DoMulti(ctx, c...)
}

// site is a Client with waiting callers.
type site struct {
	trip    time.Duration   // to Redis and back
	clock   time.Duration   // ahead of the others
	within  []time.Duration // contexts of the callers, in turn; 0 for none
	callers int             // 30 by default
	permits int64           // of each request, 1 by default
	every   time.Duration   // a caller begins so often, in place of when it is served
	hold    time.Duration   // of permits, on average
}

// crowd is what the callers of sites got in a time.
type crowd struct {
	permits []int64
	calls   int64 // to Redis
	longest []time.Duration
	held    time.Duration // by all callers, as Redis sees it
}

func (c crowd) sum() (sum int64) {
	for _, n := range c.permits {
		sum += n
	}
	return sum
}

// shares has sites wait for the limiters that open returns, for a time.
func shares(t *testing.T, f *redistest.Fixture, d time.Duration, open func(c *rratelimiter.Client) Joinable,
	sites ...site) crowd {
	ctx, end := context.WithTimeout(t.Context(), d)
	defer end()
	got := crowd{permits: make([]int64, len(sites)), longest: make([]time.Duration, len(sites))}
	before := f.Scripts.Load()
	var all sync.WaitGroup
	var mu sync.Mutex
	for i, s := range sites {
		client := func() Joinable {
			clock := func() time.Time { return time.Now().Add(s.clock) }
			return open(rratelimiter.New(far{f.Conn, s.trip / 2}, rratelimiter.WithClock(clock)))
		}
		l := client()
		caller := func(n int) {
			one, stop := ctx, context.CancelFunc(func() {})
			if len(s.within) > 0 && s.within[n%len(s.within)] > 0 {
				one, stop = context.WithTimeout(ctx, s.within[n%len(s.within)])
			}
			defer stop()
			permits := max(1, s.permits)
			from := time.Now()
			var taken Taken
			err := taken.Acquire(one, permits, l)
			mu.Lock()
			got.longest[i] = max(got.longest[i], time.Since(from))
			mu.Unlock()
			if err == nil {
				atomic.AddInt64(&got.permits[i], permits)
				if s.hold > 0 {
					mu.Lock()
					got.held += s.hold + s.trip
					mu.Unlock()
					time.Sleep(s.hold*9/10 + rand.N(s.hold/5))
					_ = taken.Settle(context.Background(), permits)
				}
			} else if ctx.Err() == nil {
				if !assert.ErrorIs(t, err, context.DeadlineExceeded) {
					end()
				}
				time.Sleep(20 * time.Millisecond)
			}
		}
		callers := s.callers
		if callers == 0 {
			callers = 30
		}
		for n := range callers {
			all.Go(func() {
				for ctx.Err() == nil {
					if s.every > 0 {
						all.Go(func() { caller(n) })
						time.Sleep(s.every)
						continue
					}
					caller(n)
				}
			})
		}
	}
	all.Wait()
	got.calls = f.Scripts.Load() - before
	return got
}

// shareTests are limiters, and what they grant in a second to callers that always wait.
var shareTests = map[string]struct {
	rate     float64
	policies []Policy
}{
	"FixedWindow":            {40, []Policy{FixedWindow{20, 500 * time.Millisecond, false}}},
	"SlidingLog":             {40, []Policy{SlidingLog{20, 500 * time.Millisecond}}},
	"SlidingWindow":          {20 / 0.55, []Policy{SlidingWindow{20, 500 * time.Millisecond, 10}}},
	"TokenBucket":            {40, []Policy{TokenBucket{1, 40, time.Second}}},
	"LeakyBucket":            {40, []Policy{LeakyBucket{10, 40, time.Second}}},
	"LeakyBucket 1000/s":     {1000, []Policy{LeakyBucket{1, 1000, time.Second}}},
	"Smooth":                 {40, []Policy{Smooth{Permits: 40, Interval: time.Second, Burst: time.Millisecond}}},
	"LeakyBucket+SlidingLog": {40, []Policy{LeakyBucket{10, 40, time.Second}, SlidingLog{20, 500 * time.Millisecond}}},
}

var (
	contexts      = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second}
	mixedContexts = append([]time.Duration{0}, contexts...)
)

// assertShares asserts that each site has 0.8 to 1.25 of an equal share, and the pace of all.
func assertShares(t *testing.T, got crowd, permits, pace float64, about string) {
	t.Helper()
	sum := float64(got.sum())
	for _, n := range got.permits {
		share := float64(n) * float64(len(got.permits)) / sum
		assert.True(t, 0.8 <= share && share <= 1.25, "%s: %v", about, got.permits)
	}
	assert.GreaterOrEqual(t, sum/permits, pace, about)
}

// TestAcquire_ClientsWait_ShareEqually: whatever their distance, clocks and deadlines. With DEEP, it runs all
// combinations.
func TestAcquire_ClientsWait_ShareEqually(t *testing.T) {
	tables := [][]site{
		{{within: mixedContexts}, {trip: 20 * time.Millisecond, clock: -30 * time.Millisecond, within: mixedContexts}},
		{{}, {clock: 30 * time.Millisecond, within: contexts[:1]}, {trip: time.Millisecond, clock: 5 * time.Millisecond}},
		{{}, {trip: time.Millisecond}, {trip: 6 * time.Millisecond}, {trip: 20 * time.Millisecond}},
	}
	if redistest.Deep(0, 1) > 0 {
		for _, trip := range []time.Duration{0, time.Millisecond, 6 * time.Millisecond, 20 * time.Millisecond} {
			for _, clock := range []time.Duration{-30, -5, 0, 5, 30} {
				for _, within := range [][]time.Duration{nil, contexts[:1], contexts[1:2], contexts[2:], mixedContexts} {
					far := site{trip: trip, clock: clock * time.Millisecond, within: within}
					tables = append(tables, []site{{within: within}, far}, []site{{}, far}, []site{{}, {}, far})
				}
			}
		}
	}
	for name, test := range shareTests {
		t.Run(name, func(t *testing.T) {
			for _, sites := range tables {
				redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
					d := 15 * time.Second
					if test.rate > 100 {
						d /= 5
					}
					got := shares(t, f, d, func(c *rratelimiter.Client) Joinable { return New(c, "x", test.policies...) }, sites...)
					pace := 0.97
					if slices.ContainsFunc(sites, func(s site) bool { return s.trip >= 20*time.Millisecond }) {
						pace = 0.95
					}
					assertShares(t, got, test.rate*d.Seconds(), pace, fmt.Sprintf("%+v", sites))
				})
			}
		})
	}
}

// TestAcquire_ClientWantsLess_GetsAllOfIt: one caller beside thirty.
func TestAcquire_ClientWantsLess_GetsAllOfIt(t *testing.T) {
	for name, test := range shareTests {
		t.Run(name, func(t *testing.T) {
			redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
				got := shares(t, f, 10*time.Second, func(c *rratelimiter.Client) Joinable { return New(c, "x", test.policies...) },
					site{}, site{callers: 1, every: 100 * time.Millisecond, trip: 6 * time.Millisecond})
				assert.GreaterOrEqual(t, got.permits[1], int64(90), "%v", got.permits)
				assert.GreaterOrEqual(t, float64(got.sum())/test.rate/10, 0.97, "%v", got.permits)
			})
		})
	}
}

// TestAcquire_ManyClientsWait_ShareCalls: fifty Clients would otherwise ask for each permit.
func TestAcquire_ManyClientsWait_ShareCalls(t *testing.T) {
	for _, name := range []string{"TokenBucket", "FixedWindow"} {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			got := shares(t, f, 10*time.Second, func(c *rratelimiter.Client) Joinable {
				return New(c, "x", shareTests[name].policies...)
			}, slices.Repeat([]site{{callers: 2}}, 50)...)
			assert.LessOrEqual(t, got.calls, 15*got.sum(), name)
			assert.GreaterOrEqual(t, slices.Min(got.permits), got.sum()/200, "%s: %v", name, got.permits) // 8 in the mean
			assert.GreaterOrEqual(t, got.sum(), int64(388), name)
		})
	}
}

// TestAcquire_ClientsWaitForPlaces_ShareEqually, and use them: of an InFlight, each grant of which a caller
// holds for a while.
func TestAcquire_ClientsWaitForPlaces_ShareEqually(t *testing.T) {
	for _, test := range []struct {
		places int64
		hold   time.Duration
		trip   time.Duration
		used   float64
	}{
		{5, 50 * time.Millisecond, 0, 0.9}, {5, 200 * time.Millisecond, 6 * time.Millisecond, 0.9},
		{5, time.Second, 20 * time.Millisecond, 0.9}, {1, 50 * time.Millisecond, 6 * time.Millisecond, 0.9},
		{1, 200 * time.Millisecond, 20 * time.Millisecond, 0.9},
	} {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			sites := slices.Repeat([]site{{hold: test.hold, callers: 10}}, 4)
			sites[1].trip = test.trip
			got := shares(t, f, 30*time.Second, func(c *rratelimiter.Client) Joinable {
				return New(c, "x", InFlight{Permits: test.places, Lease: time.Minute})
			}, sites...)
			assertShares(t, got, 1, 0, fmt.Sprintf("%+v", test))
			assert.GreaterOrEqual(t, got.held.Seconds()/30/float64(test.places), test.used, "%+v", test)
		})
	}
}

// TestAcquire_ClientsComeAndGo_PaceStays: Clients with waiters appear each 50 ms and leave unserved, a Client stops,
// and thousands of callers leave. What is held for them is held for the time of a call.
func TestAcquire_ClientsComeAndGo_PaceStays(t *testing.T) {
	for _, name := range []string{"FixedWindow", "TokenBucket", "LeakyBucket"} {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			ctx, end := context.WithTimeout(t.Context(), 15*time.Second)
			defer end()
			var all sync.WaitGroup
			var others atomic.Int64
			visit := func(callers int, d time.Duration) {
				one, leave := context.WithTimeout(ctx, d)
				defer leave()
				l := New(rratelimiter.New(f.Conn), "x", shareTests[name].policies...)
				var visitors sync.WaitGroup
				for range callers {
					visitors.Go(func() {
						if l.Acquire(one, 1) == nil {
							others.Add(1)
						}
					})
				}
				visitors.Wait()
			}
			all.Go(func() {
				for ctx.Err() == nil {
					all.Go(func() { visit(2, 45*time.Millisecond) })
					time.Sleep(50 * time.Millisecond)
				}
			})
			all.Go(func() { visit(2000, 300*time.Millisecond) })
			got := shares(t, f, 15*time.Second, func(c *rratelimiter.Client) Joinable {
				return New(c, "x", shareTests[name].policies...)
			}, site{}, site{trip: 6 * time.Millisecond})
			all.Wait()
			assert.GreaterOrEqual(t, got.sum()+others.Load(), int64(582), name)
			assert.GreaterOrEqual(t, slices.Min(got.permits), int64(150), "%s: %v and %d", name, got.permits, others.Load())
		})
	}
}
