package limit

import (
	"context"
	"fmt"
	"maps"
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
	opts    []rratelimiter.Option
}

// waitable is a limiter of either layout.
type waitable interface {
	Joinable
	Acquire(ctx context.Context, permits int64) error
	TryAcquire(ctx context.Context, permits int64) (bool, error)
}

// crowd is what the callers of sites got in a time.
type crowd struct {
	permits []int64
	early   []int64 // of the permits, in the first leadFor, by which one may be ahead
	calls   int64   // to Redis
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
func shares(t *testing.T, f *redistest.Fixture, d time.Duration, open func(c *rratelimiter.Client) waitable,
	sites ...site) crowd {
	ctx, end := context.WithCancel(t.Context()) // a deadline would be one of each caller
	time.AfterFunc(d, end)
	got := crowd{permits: make([]int64, len(sites)), early: make([]int64, len(sites)),
		longest: make([]time.Duration, len(sites))}
	start, before := time.Now(), f.Scripts.Load()
	var all sync.WaitGroup
	var mu sync.Mutex
	for i, s := range sites {
		clock := rratelimiter.WithClock(func() time.Time { return time.Now().Add(s.clock) })
		l := open(rratelimiter.New(far{f.Conn, s.trip / 2}, append(s.opts, clock)...))
		caller := func(n int) {
			one, stop := ctx, context.CancelFunc(func() {})
			if len(s.within) > 0 && s.within[n%len(s.within)] > 0 {
				one, stop = context.WithTimeout(ctx, s.within[n%len(s.within)])
			}
			defer stop()
			permits := max(1, s.permits)
			from := time.Now()
			var taken Taken
			var err error
			if s.hold > 0 {
				err = taken.Acquire(one, permits, l)
			} else {
				err = l.Acquire(one, permits)
			}
			mu.Lock()
			got.longest[i] = max(got.longest[i], time.Since(from))
			mu.Unlock()
			if err == nil {
				atomic.AddInt64(&got.permits[i], permits)
				if time.Since(start) < leadFor {
					atomic.AddInt64(&got.early[i], permits)
				}
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

// shareTest is a limiter, and what it grants in a second to callers that always wait.
type shareTest struct {
	rate     float64
	policies []Policy          // none for Redisson's layout
	redisson rratelimiter.Rate // of it
	joined   bool              // it is a member of a Join
}

func ofRedisson(permits int64, interval time.Duration) shareTest {
	return shareTest{rate: float64(permits) / interval.Seconds(),
		redisson: rratelimiter.Rate{Permits: permits, Interval: interval}}
}

func (s shareTest) join() shareTest {
	s.joined = true
	return s
}

func (s shareTest) open(c *rratelimiter.Client) waitable {
	if s.policies != nil {
		return New(c, "x", s.policies...)
	}
	l := c.Limiter("x", rratelimiter.InitialRate(s.redisson))
	if s.joined {
		return Join(l)
	}
	return l
}

// daily are limiters of daily runs.
var daily = map[string]shareTest{
	"FixedWindow":        limited(40, FixedWindow{20, 500 * time.Millisecond, false}),
	"SlidingWindow":      limited(20/0.55, SlidingWindow{20, 500 * time.Millisecond, 10}),
	"SlidingLog":         limited(40, SlidingLog{20, 500 * time.Millisecond}),
	"TokenBucket":        limited(40, TokenBucket{1, 40, time.Second}),
	"LeakyBucket 1000/s": limited(1000, LeakyBucket{1, 1000, time.Second}),
	"FixedWindow 1000/s": limited(1000, FixedWindow{1000, time.Second, false}), // callers come back in a window
	"InFlight":           limited(40, InFlight{Permits: 40, Lease: time.Second}),
	"Redisson's layout":  ofRedisson(20, 500*time.Millisecond),
	"Redisson's, joined": ofRedisson(20, 500*time.Millisecond).join(),
}

func limited(rate float64, policies ...Policy) shareTest {
	return shareTest{rate: rate, policies: policies}
}

// shareTests returns those whose Clients share equally, and others with DEEP.
func shareTests() map[string]shareTest {
	all := maps.Clone(daily)
	delete(all, "InFlight")
	if redistest.Deep(0, 1) == 0 {
		delete(all, "SlidingLog")
	} else {
		maps.Copy(all, map[string]shareTest{
			"LeakyBucket":            limited(40, LeakyBucket{10, 40, time.Second}),
			"Smooth":                 limited(40, Smooth{Permits: 40, Interval: time.Second, Burst: time.Millisecond}),
			"LeakyBucket+SlidingLog": limited(40, LeakyBucket{10, 40, time.Second}, SlidingLog{20, 500 * time.Millisecond}),
			"Redisson's 40/s":        ofRedisson(40, time.Second),
			"Redisson's 1000/s":      ofRedisson(1000, time.Second),
			"Redisson's 1 in 100 ms": ofRedisson(1, 100*time.Millisecond),
			"Joined 1000/s":          ofRedisson(1000, time.Second).join(),
			"Joined 1 in 100 ms":     ofRedisson(1, 100*time.Millisecond).join(),
		})
	}
	return all
}

var (
	contexts      = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second}
	mixedContexts = append([]time.Duration{0}, contexts...)
)

// assertShares asserts that each site has 0.8 to 1.25 of an equal share after the first leadFor, and the pace of all.
func assertShares(t *testing.T, got crowd, permits, pace float64, about string) {
	t.Helper()
	var late float64
	for i, n := range got.permits {
		late += float64(n - got.early[i])
	}
	for i, n := range got.permits {
		share := float64(n-got.early[i]) * float64(len(got.permits)) / late
		assert.True(t, 0.8 <= share && share <= 1.25, "%s: %v, at first %v", about, got.permits, got.early)
	}
	assert.GreaterOrEqual(t, float64(got.sum())/permits, pace, about)
}

// forSeconds returns how long a crowd waits, in fake time: briefly in daily runs, and long with DEEP.
func forSeconds(quick, deep int) time.Duration {
	return time.Duration(redistest.Deep(quick, deep)) * time.Second
}

// TestAcquire_ClientsWait_ShareEqually: whatever their distance, clocks and deadlines. With DEEP, it runs all
// combinations.
func TestAcquire_ClientsWait_ShareEqually(t *testing.T) {
	t.Parallel()
	tables := [][]site{{{within: mixedContexts},
		{trip: 20 * time.Millisecond, clock: -30 * time.Millisecond, within: mixedContexts}}}
	distances := []site{{}, {trip: time.Millisecond}, {trip: 6 * time.Millisecond}, {trip: 20 * time.Millisecond}}
	if redistest.Deep(0, 1) > 0 {
		tables = append(tables, distances)
		for _, trip := range []time.Duration{0, time.Millisecond, 6 * time.Millisecond, 20 * time.Millisecond} {
			for _, clock := range []time.Duration{-30, -5, 0, 5, 30} {
				for _, within := range [][]time.Duration{nil, contexts[:1], contexts[1:2], contexts[2:], mixedContexts} {
					far := site{trip: trip, clock: clock * time.Millisecond, within: within}
					tables = append(tables, []site{{within: within}, far}, []site{{}, far}, []site{{}, {}, far})
				}
			}
		}
	}
	for name, test := range shareTests() {
		t.Run(name, func(t *testing.T) {
			tables := tables
			if name == "Redisson's layout" && redistest.Deep(0, 1) == 0 {
				tables = append(tables, distances)
			}
			for _, sites := range tables {
				redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
					d := forSeconds(6, 15) // a window may be late once
					if test.policies == nil {
						d = forSeconds(15, 20) // at first, two or three waits are late: see WithWaitJitter
					}
					if name == "LeakyBucket 1000/s" {
						d = forSeconds(2, 3)
					}
					got := shares(t, f, d, test.open, sites...)
					pace := 0.97
					if slices.ContainsFunc(sites, func(s site) bool { return s.trip >= 20*time.Millisecond }) {
						pace = 0.95
					}
					if name == "Redisson's 1 in 100 ms" {
						pace = 0.92 // at first, more waits are late: see WithWaitJitter
					}
					assertShares(t, got, test.rate*d.Seconds(), pace, fmt.Sprintf("%+v", sites))
				})
			}
		})
	}
}

// TestAcquire_ShortDeadlinesOnASlowLink_KeepThePace: no permit goes to a caller that leaves before the reply. All waits
// end at their deadlines, and calls take as long as those are apart.
func TestAcquire_ShortDeadlinesOnASlowLink_KeepThePace(t *testing.T) {
	t.Parallel()
	far := site{trip: 20 * time.Millisecond, within: []time.Duration{300 * time.Millisecond}}
	places := far
	places.hold = 100 * time.Millisecond
	d := forSeconds(10, 30)
	for name, test := range map[string]struct {
		rate   float64
		policy Policy
		sites  []site
	}{
		"TokenBucket":                 {40, TokenBucket{1, 40, time.Second}, []site{far}},
		"SlidingLog":                  {40, SlidingLog{4, 100 * time.Millisecond}, []site{far}},
		"InFlight":                    {5 / 0.135, InFlight{Permits: 5, Lease: time.Minute}, []site{places}},
		"LeakyBucket beside a Client": {40, LeakyBucket{10, 40, time.Second}, []site{far, {}}},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
				got := shares(t, f, d, func(c *rratelimiter.Client) waitable { return New(c, "x", test.policy) }, test.sites...)
				assertShares(t, got, test.rate*d.Seconds(), 0.95, name)
			})
		})
	}
}

// TestAcquire_WindowBesideABucket_PaceStays: many Clients take one permit after another of each window.
func TestAcquire_WindowBesideABucket_PaceStays(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		test := limited(40, FixedWindow{20, 500 * time.Millisecond, false},
			Smooth{Permits: 80, Interval: time.Second, Burst: time.Millisecond})
		d := forSeconds(3, 15)
		got := shares(t, f, d, test.open, slices.Repeat([]site{{callers: 3}}, 40)...)
		assert.GreaterOrEqual(t, float64(got.sum()), 0.95*test.rate*d.Seconds())
	})
}

// TestAcquire_ClientWantsLess_GetsAllOfIt: one caller beside thirty.
func TestAcquire_ClientWantsLess_GetsAllOfIt(t *testing.T) {
	for name, test := range shareTests() {
		another := test.policies == nil && name != "Redisson's layout"
		if another || test.rate > 100 && redistest.Deep(0, 1) == 0 {
			continue
		}
		pace := 0.97
		if test.policies == nil {
			pace = 0.95 // a window may be late once
		}
		t.Run(name, func(t *testing.T) {
			redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
				d := forSeconds(2, 10)
				got := shares(t, f, d, test.open, site{},
					site{callers: 1, every: 100 * time.Millisecond, trip: 6 * time.Millisecond})
				// The last ones wait for the next window.
				last := 0.7
				if name == "FixedWindow 1000/s" {
					last = 1
				}
				assert.GreaterOrEqual(t, float64(got.permits[1]), 9.8*(d.Seconds()-last), "%v", got.permits)
				assert.GreaterOrEqual(t, float64(got.sum())/test.rate/d.Seconds(), pace, "%v", got.permits)
			})
		})
	}
}

// TestAcquire_CallersFillAWindow_ShareEqually: all of them are served in it, and those of the far Client do not ask again
// before it ends.
func TestAcquire_CallersFillAWindow_ShareEqually(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		test, d := daily["FixedWindow"], forSeconds(10, 60)
		got := shares(t, f, d, test.open, site{callers: 10}, site{callers: 10, trip: 3 * time.Millisecond})
		assertShares(t, got, test.rate*d.Seconds(), 0.97, "ten each")
	})
}

// TestAcquire_OneCallerAsksForMuch_GetsItsShare: between its calls, its Client has no waiter, and none of what it has got
// is forgotten.
func TestAcquire_OneCallerAsksForMuch_GetsItsShare(t *testing.T) {
	t.Parallel()
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		test, d := limited(40, LeakyBucket{20, 40, time.Second}), forSeconds(10, 60)
		sites := []site{{}, {callers: 1, permits: 20, trip: 20 * time.Millisecond}}
		assertShares(t, shares(t, f, d, test.open, sites...), test.rate*d.Seconds(), 0.95, fmt.Sprintf("%+v", sites))
	})
}

// Limiters of one name with other permits, as in docs/choosing.md, "Background work": what one may not take is not held
// for it.
func TestAcquire_LimiterWithLessPermitsWaits_QuotaIsUsed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		whole, less Policy
		hold        time.Duration
	}{
		"window": {FixedWindow{100, time.Second, false}, FixedWindow{10, time.Second, false}, 0},
		"in flight": {InFlight{Permits: 10, Lease: time.Minute}, InFlight{Permits: 5, Lease: time.Minute},
			100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
				policies := []Policy{test.whole, test.less}
				got := shares(t, f, 5*time.Second, func(c *rratelimiter.Client) waitable {
					p := policies[0]
					policies = policies[1:]
					return New(c, "x", p)
				}, site{hold: test.hold}, site{hold: test.hold})
				assert.GreaterOrEqual(t, float64(got.sum()), 0.95*500, "%v", got.permits)
			})
		})
	}
}

// TestAcquire_ManyClientsWait_ShareCalls: they would otherwise ask for each permit, or in each window.
func TestAcquire_ManyClientsWait_ShareCalls(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		clients, seconds int
		calls            float64
	}{"TokenBucket": {8, 3, 15}, "FixedWindow": {50, 10, 1.5}} {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			d, clients := forSeconds(test.seconds, 30), redistest.Deep(test.clients, 50)
			got := shares(t, f, d, daily[name].open, slices.Repeat([]site{{callers: 2}}, clients)...)
			assert.LessOrEqual(t, float64(got.calls), min(test.calls, float64(clients))*float64(got.sum()+2), name)
			mean := got.sum() / int64(clients)
			assert.GreaterOrEqual(t, slices.Min(got.permits), mean/2, "%s: %v", name, got.permits)
			assert.GreaterOrEqual(t, float64(got.sum()), 0.97*40*d.Seconds(), name)
		})
	}
}

// TestAcquire_ClientsWaitForPlaces_ShareEqually, and use them: of an InFlight, each grant of which a caller
// holds for a while.
func TestAcquire_ClientsWaitForPlaces_ShareEqually(t *testing.T) {
	t.Parallel()
	tests := []struct {
		places int64
		hold   time.Duration
		trip   time.Duration
		used   float64
	}{
		{5, 200 * time.Millisecond, 6 * time.Millisecond, 0.9}, {1, 50 * time.Millisecond, 6 * time.Millisecond, 0.9},
		{5, 50 * time.Millisecond, 0, 0.9}, {5, time.Second, 20 * time.Millisecond, 0.9},
		{1, 200 * time.Millisecond, 20 * time.Millisecond, 0.9},
	}
	for _, test := range tests[:redistest.Deep(1, len(tests))] {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			sites := slices.Repeat([]site{{hold: test.hold, callers: 10}}, 4)
			sites[1].trip = test.trip
			d := forSeconds(10, 30)
			got := shares(t, f, d, func(c *rratelimiter.Client) waitable {
				return New(c, "x", InFlight{Permits: test.places, Lease: time.Minute})
			}, sites...)
			assertShares(t, got, 1, 0, fmt.Sprintf("%+v", test))
			assert.GreaterOrEqual(t, got.held.Seconds()/d.Seconds()/float64(test.places), test.used, "%+v", test)
		})
	}
}

// TestAcquire_ClientsComeAndGo_PaceStays: Clients with waiters appear each 50 ms and leave unserved, a Client stops,
// and thousands of callers leave. What is held for them is held for the time of a call.
func TestAcquire_ClientsComeAndGo_PaceStays(t *testing.T) {
	t.Parallel()
	names := []string{"TokenBucket", "Redisson's layout", "FixedWindow", "LeakyBucket"}
	for _, name := range names[:redistest.Deep(2, len(names))] {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			test, d, pace := shareTests()[name], forSeconds(3, 15), float64(redistest.Deep(92, 97))/100
			ctx, end := context.WithTimeout(t.Context(), d)
			defer end()
			var all sync.WaitGroup
			var others atomic.Int64
			visit := func(callers int, d time.Duration) {
				one, leave := context.WithTimeout(ctx, d)
				defer leave()
				l := test.open(rratelimiter.New(f.Conn))
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
			all.Go(func() { visit(redistest.Deep(300, 2000), 300*time.Millisecond) })
			got := shares(t, f, d, test.open, site{}, site{trip: 6 * time.Millisecond})
			all.Wait()
			assert.GreaterOrEqual(t, float64(got.sum()+others.Load()), pace*test.rate*d.Seconds(), name)
			assert.GreaterOrEqual(t, float64(slices.Min(got.permits)), test.rate/5*d.Seconds(), "%s: %v and %d", name,
				got.permits, others.Load())
		})
	}
}

// TestAcquire_ClientStops_MakesUpForIt: its calls hang for a second. Then it gets what the other was
// ahead, since it had waiters all the time.
func TestAcquire_ClientStops_MakesUpForIt(t *testing.T) {
	for _, name := range []string{"TokenBucket", "Redisson's layout"} {
		redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
			ctx, end := context.WithCancel(t.Context())
			var permits [2]atomic.Int64
			var all sync.WaitGroup
			for i, conn := range []rueidis.Client{f.Conn, stopping{f.Conn, time.Now().Add(time.Second)}} {
				l := daily[name].open(rratelimiter.New(conn))
				for range 5 {
					all.Go(func() {
						for l.Acquire(ctx, 1) == nil {
							permits[i].Add(1)
						}
					})
				}
			}
			time.Sleep(5 * time.Second)
			end()
			all.Wait()
			assert.InDelta(t, permits[0].Load(), permits[1].Load(), 24, name)
			assert.GreaterOrEqual(t, permits[0].Load()+permits[1].Load(), int64(194), name)
		})
	}
}

// stopping is a client whose calls hang for a second from a time on.
type stopping struct {
	rueidis.Client
	at time.Time
}

func (c stopping) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if now := time.Now(); now.After(c.at) {
		time.Sleep(c.at.Add(time.Second).Sub(now))
	}
	return c.Client.Do(ctx, command)
}
