package rratelimiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// far is a client at half of a round trip from Redis, each way.
type far struct {
	rueidis.Client
	half  time.Duration
	hangs *atomic.Bool
}

// wait waits for half of a round trip, and while the client hangs.
func (f far) wait() {
	time.Sleep(f.half)
	for n := 0; f.hangs != nil && f.hangs.Load() && n < 600; n++ {
		time.Sleep(100 * time.Millisecond)
	}
}

func (f far) Do(ctx context.Context, c rueidis.Completed) rueidis.RedisResult {
	f.wait()
	defer f.wait()
	return f.Client.Do(ctx, c)
}

func (f far) DoMulti(ctx context.Context, c ...rueidis.Completed) []rueidis.RedisResult {
	f.wait()
	defer f.wait()
	return f.Client.DoMulti(ctx, c...)
}

// site is a Client with waiting callers.
type site struct {
	trip    time.Duration   // to Redis and back
	clock   time.Duration   // ahead of the others
	within  []time.Duration // contexts of the callers, in turn; 0 for none
	callers int             // 30 by default
	permits int64           // of each request, 1 by default
	hangs   *atomic.Bool    // its calls hang while it is true, for up to a minute
	opts    []Option
}

func (s site) String() string {
	return fmt.Sprintf("%v away, clock %v, within %v", s.trip, s.clock, s.within)
}

// waits has the callers of a site wait for a limiter until ctx ends, and returns the permits that they got.
func (f *fixture) waits(ctx context.Context, s site, rate Rate) (got int64) {
	clock := WithClock(func() time.Time { return time.Now().Add(s.clock) })
	l := New(far{f.Conn, s.trip / 2, s.hangs}, append(s.opts, clock)...).Limiter("limiter", InitialRate(rate))
	var callers sync.WaitGroup
	for n := range max(s.callers, 30*(1-min(1, s.callers))) {
		callers.Go(func() {
			for ctx.Err() == nil {
				one, stop := ctx, context.CancelFunc(func() {})
				if len(s.within) > 0 && s.within[n%len(s.within)] > 0 {
					one, stop = context.WithTimeout(ctx, s.within[n%len(s.within)])
				}
				if err := l.Acquire(one, max(1, s.permits)); err == nil {
					atomic.AddInt64(&got, max(1, s.permits))
				} else if ctx.Err() == nil {
					assert.ErrorIs(f, err, context.DeadlineExceeded)
					time.Sleep(20 * time.Millisecond)
				}
				stop()
			}
		})
	}
	callers.Wait()
	return got
}

// shares returns what sites get in a time.
func (f *fixture) shares(rate Rate, d time.Duration, sites ...site) (got []int64, sum int64) {
	ctx, end := context.WithTimeout(f.Context(), d)
	defer end()
	got = make([]int64, len(sites))
	var all sync.WaitGroup
	for i, s := range sites {
		all.Go(func() { got[i] = f.waits(ctx, s, rate) })
	}
	all.Wait()
	for _, n := range got {
		sum += n
	}
	return got, sum
}

var (
	contexts      = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second}
	mixedContexts = append([]time.Duration{0}, contexts...)
)

// shareTables are sites that want the same.
func shareTables() [][]site {
	const ms = time.Millisecond
	tables := [][]site{
		{{within: contexts[:1]}, {trip: 6 * ms, within: contexts[:1]}},
		{{within: mixedContexts}, {trip: 20 * ms, clock: -30 * ms, within: mixedContexts}},
		{{}, {clock: 30 * ms, within: contexts[:1]}, {trip: ms, clock: 5 * ms}},
		{{}, {trip: ms}, {trip: 6 * ms}, {trip: 20 * ms}},
	}
	if redistest.Deep(0, 1) > 0 {
		for _, trip := range []time.Duration{0, ms, 6 * ms, 20 * ms} {
			for _, clock := range []time.Duration{-30 * ms, -5 * ms, 0, 5 * ms, 30 * ms} {
				for _, within := range [][]time.Duration{nil, contexts[:1], contexts[1:2], contexts[2:], mixedContexts} {
					far := site{trip: trip, clock: clock, within: within}
					tables = append(tables, []site{{within: within}, far}, []site{{}, far}, []site{{}, {}, far})
				}
			}
		}
	}
	return tables
}

// TestAcquire_ClientsWait_ShareEqually: whatever their distance, clocks and deadlines. With DEEP, it runs all
// combinations.
func TestAcquire_ClientsWait_ShareEqually(t *testing.T) {
	for rate, pace := range map[Rate]float64{
		{Permits: 40, Interval: time.Second}:            0.97,
		{Permits: 1000, Interval: time.Second}:          0.97, // callers come back while permits are free
		{Permits: 20, Interval: 500 * time.Millisecond}: 0.95, // a window ends within the time
		{Permits: 1, Interval: 100 * time.Millisecond}:  0.92, // at first, more waits are late: see WithWaitJitter
	} {
		for i, sites := range shareTables() {
			only, one := map[int64]int{1: 3, 20: 3, 1000: 0}[rate.Permits]
			if one && i != only && redistest.Deep(0, 1) == 0 {
				continue // one table is enough for each daily run
			}
			runWithRedis(t, fmt.Sprintf("%d per %v, %v", rate.Permits, rate.Interval, sites), func(t *testing.T, f *fixture) {
				const d = 15 * time.Second
				// The first window is of the Client that begins first.
				require.True(t, redistest.Result(t, f.limiter(rate).TryAcquire, rate.Permits))
				got, sum := f.shares(rate, rate.Interval+d, sites...)
				for _, n := range got {
					share := float64(n) * float64(len(got)) / float64(sum)
					assert.True(t, 0.8 <= share && share <= 1.25, "%v", got)
				}
				assert.GreaterOrEqual(t, float64(sum)/float64(rate.Permits)/float64(d/rate.Interval), pace, "%v", got)
			})
		}
	}
}

// TestAcquire_WaitersKey_IsOfWaitersOnly: it is in the slot of the limiter, expires after them, and no other call
// reads or changes it. A PerClient limiter has none.
func TestAcquire_WaitersKey_IsOfWaitersOnly(t *testing.T) {
	for _, kind := range []RateType{Overall, PerClient} {
		withRedis(t, func(t *testing.T, f *fixture) {
			l := f.limiter(Rate{Type: kind, Permits: 2, Interval: time.Minute})
			f.RequireGranted(l, 2)
			_, err := l.Take(t.Context(), 1)
			require.NoError(t, err)
			key := l.protocol.keys.waiters()
			assert.False(t, f.Redis.Exists(key))
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
			go func() { _ = l.Acquire(ctx, 1) }()
			time.Sleep(time.Millisecond)
			assert.Equal(t, kind == Overall, f.Redis.Exists(key), kind)
			assert.True(t, strings.HasPrefix(key, "{limiter}:waiters:"), key)
			size, err := l.SizeInMemory(t.Context())
			require.NoError(t, err)
			f.RequireNoError(l.Copy(t.Context(), "copy"))
			require.NoError(t, l.Rename(t.Context(), "other"))
			assert.Equal(t, kind == Overall, f.Redis.Exists(key), "it is not renamed")
			same := New(f.Conn, WithClientID(uuid.MustParse(l.protocol.client.ID())))
			require.NoError(t, same.Limiter("other").Rename(t.Context(), "limiter"))
			again, err := l.SizeInMemory(t.Context())
			require.NoError(t, err)
			assert.Equal(t, size, again)
			f.RequireNoError(l.Delete(t.Context()))
			assert.Equal(t, kind == Overall, f.Redis.Exists(key), "Delete leaves it")
			stop()
			time.Sleep(10 * time.Second)
			assert.False(t, f.Redis.Exists(key))
		})
	}
}

// TestAcquire_ClientsFail_OthersGoOn: a Client stops for three seconds, one ends, and one has a clock that is a minute
// ahead or behind. Clients come and go each 50 ms, and thousands of callers leave.
func TestAcquire_ClientsFail_OthersGoOn(t *testing.T) {
	rate := Rate{Permits: 20, Interval: 500 * time.Millisecond}
	for name, other := range map[string]func(ctx context.Context, f *fixture) int64{
		"stops": func(ctx context.Context, f *fixture) int64 {
			var stop atomic.Bool
			time.AfterFunc(4*time.Second, func() { stop.Store(true) })
			time.AfterFunc(7*time.Second, func() { stop.Store(false) })
			return f.waits(ctx, site{hangs: &stop}, rate)
		},
		"ends": func(ctx context.Context, f *fixture) int64 {
			var stop atomic.Bool
			time.AfterFunc(4*time.Second, func() { stop.Store(true) })
			return f.waits(ctx, site{hangs: &stop}, rate)
		},
		"is ahead":  func(ctx context.Context, f *fixture) int64 { return f.waits(ctx, site{clock: time.Minute}, rate) },
		"is behind": func(ctx context.Context, f *fixture) int64 { return f.waits(ctx, site{clock: -time.Minute}, rate) },
		"come and go": func(ctx context.Context, f *fixture) (got int64) {
			var visits sync.WaitGroup
			for ctx.Err() == nil {
				visits.Go(func() {
					one, leave := context.WithTimeout(ctx, 45*time.Millisecond)
					defer leave()
					atomic.AddInt64(&got, f.waits(one, site{callers: 2}, rate))
				})
				time.Sleep(50 * time.Millisecond)
			}
			visits.Wait()
			return got
		},
		"leave": func(ctx context.Context, f *fixture) int64 {
			one, leave := context.WithTimeout(ctx, 300*time.Millisecond)
			defer leave()
			return f.waits(one, site{callers: redistest.Deep(300, 2000)}, rate)
		},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			ctx, end := context.WithTimeout(t.Context(), 15*time.Second)
			defer end()
			var others int64
			var all sync.WaitGroup
			all.Go(func() { others = other(ctx, f) })
			got, sum := f.shares(rate, 15*time.Second, site{}, site{trip: 6 * time.Millisecond})
			all.Wait()
			t.Log(got, others)
			assert.GreaterOrEqual(t, slices.Min(got), int64(150), "%v and %d", got, others)
			assert.GreaterOrEqual(t, sum+others, int64(540), "%v and %d", got, others)
		})
	}
}

// TestWithWaitJitter_GoAlone_KeepsThePace: its waiters are late by at most a fortieth of the time.
func TestWithWaitJitter_GoAlone_KeepsThePace(t *testing.T) {
	for _, test := range []struct {
		opts    []Option
		rate    Rate
		callers int
		least   int64
	}{
		{nil, Rate{Permits: 1, Interval: 100 * time.Millisecond}, 4, 285},
		{nil, Rate{Permits: 20, Interval: time.Second}, 6, 580},
		{nil, Rate{Permits: 1, Interval: time.Second}, 1, 29},
		{[]Option{WithWaitJitter(time.Hour)}, Rate{Permits: 20, Interval: time.Second}, 6, 550}, // at first, more waits are late
		{[]Option{WithWaitJitter(0)}, Rate{Permits: 1, Interval: 100 * time.Millisecond}, 4, 300},
	} {
		withRedis(t, func(t *testing.T, f *fixture) {
			f.Latency.Store(int64(200 * time.Microsecond))
			ctx, end := context.WithTimeout(t.Context(), 30*time.Second)
			defer end()
			got := f.waits(ctx, site{callers: test.callers, opts: test.opts}, test.rate)
			assert.GreaterOrEqual(t, got, test.least, "%v", test.rate)
		})
	}
}

// TestWithWaitJitter_BesideRedisson_EachSideHasAQuarter: threads of another program wait as Redisson's do, with a
// timer that ticks each 5 to 100 ms, and may be later than that. Callers of Clients have contexts and clocks of their own.
// With DEEP, it runs all combinations.
func TestWithWaitJitter_BesideRedisson_EachSideHasAQuarter(t *testing.T) {
	const ms = time.Millisecond
	perSecond, each100ms := Rate{Permits: 20, Interval: time.Second}, Rate{Permits: 1, Interval: 100 * ms}
	type crowd struct {
		rate                   Rate
		clients, ours, threads int
		site                   site
		tick                   time.Duration
		late                   time.Duration // of a thread
	}
	hundred := Rate{Permits: 100, Interval: time.Second}
	crowds := append([]crowd{
		{perSecond, 1, 20, 1, site{}, 100 * ms, 0}, {perSecond, 5, 6, 6, site{}, 100 * ms, 0},
		{each100ms, 5, 1, 4, site{}, 100 * ms, 0}, {hundred, 3, 30, 30, site{}, 100 * ms, 0},
	}[:redistest.Deep(0, 4)],
		crowd{perSecond, 1, 6, 6, site{}, 100 * ms, 10 * ms}, crowd{perSecond, 1, 1, 20, site{}, 100 * ms, 0},
		crowd{perSecond, 1, 40, 6, site{within: contexts[:1], clock: -30 * ms}, 26 * ms, 0},
		crowd{perSecond, 1, 6, 6, site{within: contexts[1:2], clock: 30 * ms}, 100 * ms, 0},
		crowd{perSecond, 3, 10, 6, site{within: contexts[2:], trip: 6 * ms}, 100 * ms, 0},
		crowd{each100ms, 2, 4, 4, site{clock: 30 * ms, within: contexts[:1]}, 26 * ms, 0})
	for _, tick := range []time.Duration{5 * ms, 26 * ms, 100 * ms}[:redistest.Deep(0, 3)] {
		for _, clock := range []time.Duration{0, 5 * ms, -5 * ms, 30 * ms, -30 * ms} {
			for _, within := range append(contexts, 0) {
				s := site{clock: clock, within: []time.Duration{within}}
				crowds = append(crowds, crowd{perSecond, 1, 40, 6, s, tick, 0}, crowd{perSecond, 1, 6, 6, s, tick, 0},
					crowd{perSecond, 3, 10, 6, s, tick, 0}, crowd{each100ms, 1, 4, 4, s, tick, 0},
					crowd{each100ms, 2, 4, 4, s, tick, 0})
			}
		}
	}
	for _, c := range crowds {
		withRedis(t, func(t *testing.T, f *fixture) {
			f.Latency.Store(int64(200 * time.Microsecond))
			ctx, end := context.WithTimeout(t.Context(), 30*time.Second)
			defer end()
			var all sync.WaitGroup
			var got, theirs int64
			other := New(f.Conn).Limiter("limiter", InitialRate(c.rate))
			for range c.threads {
				all.Go(func() {
					for ctx.Err() == nil {
						d, err := other.Take(ctx, 1)
						if err == nil && d.Allowed {
							atomic.AddInt64(&theirs, 1)
							continue
						}
						at := time.Now().Add(d.RetryAfter + 3*ms)
						time.Sleep(time.Until(at.Truncate(c.tick).Add(c.tick)) + rand.N(2*ms+2*c.late))
					}
				})
			}
			c.site.callers = c.ours
			for range c.clients {
				all.Go(func() { atomic.AddInt64(&got, f.waits(ctx, c.site, c.rate)) })
			}
			all.Wait()
			about := fmt.Sprintf("%+v: %d and %d", c, got, theirs)
			assert.GreaterOrEqual(t, float64(min(got, theirs)), 0.24*float64(got+theirs), about)
			assert.GreaterOrEqual(t, float64(got+theirs), 0.75*float64(c.rate.Permits)*30/c.rate.Interval.Seconds(), about)
		})
	}
}
