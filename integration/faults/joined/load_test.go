// Package joined_test runs a load on a Join of a Redisson limiter and policies of package limit while
// Redis fails. No fault makes one part take permits without the others.
package joined_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/faults/outages"
	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

const (
	callers = 32 // of each Join

	hour, second = "{shop}:hour", "{shop}:second" // the Joins

	// plenty is the permits of each part of the Join whose permits do not return during a test.
	plenty = 1_000_000

	// rate is the permits in a second of each part of the Join whose callers wait.
	rate     = 300
	interval = time.Second

	// late is the longest time from the end of a context to the return of its call. A busy machine
	// needs much less.
	late = 2 * time.Second

	// settleTimeout is the time limit for conditions that a test waits for.
	settleTimeout = 60 * time.Second
)

// load is callers on two Joins of the same parts. No permit of the first returns for an hour, so its
// parts show all permits ever taken. Callers wait for the permits of the second.
type load struct {
	*testing.T
	redis         rueidis.Client
	direct        rueidis.Client // for the test itself
	keeping, flow crowd
	started       time.Time
	stop          chan struct{}
	running       sync.WaitGroup
	latest        ledger.Longest // from the end of a context to the return of its call
}

// crowd is the callers of one Join.
type crowd struct {
	limiter *limit.Limiter
	book    *ledger.Ledger
	unknown atomic.Int64 // permits of calls that failed: taken or not, and released or not
	left    atomic.Int64 // of these, of calls whose contexts ended
}

// start starts the callers on the Redis of the options, and waits until they get permits. The test
// itself uses the address direct, if any.
func start(t *testing.T, option rueidis.ClientOption, direct ...string) *load {
	t.Helper()
	option.Dialer.Timeout = time.Second
	redis := servers.Connect(t, option)
	if direct != nil {
		option.InitAddress = direct
	}
	option.DisableCache = true
	other := servers.Connect(t, option)
	l := &load{T: t, redis: redis, direct: other, started: time.Now(), stop: make(chan struct{})}
	client := rratelimiter.New(redis)
	l.open(&l.keeping, client, hour, plenty, time.Hour, 1)
	l.open(&l.flow, client, second, rate, interval, rate)
	for i := range callers {
		l.running.Go(func() { l.caller(&l.keeping, i) })
		l.running.Go(func() { l.caller(&l.flow, i) })
	}
	t.Cleanup(l.end) // if the test ends early
	l.awaitGrants(l.started)
	return l
}

// open makes a Join of all parts.
func (l *load) open(c *crowd, client *rratelimiter.Client, name string, permits int64, interval time.Duration,
	refill int64) {
	l.Helper()
	quota := client.Limiter(name + ":quota")
	require.NoError(l, rratelimiter.New(l.direct).Limiter(quota.Name()).SetRate(l.Context(),
		rratelimiter.Rate{Permits: permits, Interval: interval}))
	c.limiter = limit.Join(
		quota,
		limit.New(client, name+":fixed", limit.FixedWindow{Permits: permits, Interval: interval}),
		limit.New(client, name, limit.TokenBucket{Capacity: permits, Refill: refill, Interval: interval},
			limit.SlidingLog{Permits: permits, Interval: interval}),
		limit.New(client, name, limit.SlidingWindow{Permits: permits, Interval: interval}),
	)
	require.NoError(l, c.limiter.Reset(l.Context()))
	c.book = ledger.New(func(err error) string { return outages.Kind(err, c.limiter.Name()) })
}

// caller takes permits again and again, by the call that i selects, each time with a context that
// ends.
func (l *load) caller(c *crowd, i int) {
	random := rand.New(rand.NewPCG(uint64(i), 0))
	between := func(from, to time.Duration) time.Duration { return from + time.Duration(random.Int64N(int64(to-from))) }
	for {
		select {
		case <-l.stop:
			return
		case <-time.After(between(time.Millisecond, 8*time.Millisecond)):
		}
		within := between(200*time.Millisecond, 800*time.Millisecond)
		ends := time.Now().Add(within)
		ctx, cancel := context.WithDeadline(context.Background(), ends)
		var leave *time.Timer
		if random.IntN(4) == 0 {
			// The caller cancels, mostly while its call is under way.
			early := between(0, 3*time.Millisecond)
			ends = time.Now().Add(early)
			leave = time.AfterFunc(early, cancel)
		}
		permits := 1 + random.Int64N(3)
		_, err := c.book.Time("go", permits, func() (bool, error) {
			return everycall.Acquire(ctx, c.limiter, i, permits, within/2)
		})
		l.latest.Add(time.Since(ends))
		if leave != nil {
			leave.Stop()
		}
		if err != nil {
			c.unknown.Add(permits)
			if ctx.Err() != nil {
				c.left.Add(permits)
			}
		}
		cancel()
	}
}

// awaitGrants waits until callers of both Joins got permits by calls that began after a time.
func (l *load) awaitGrants(after time.Time) {
	l.Helper()
	for _, c := range []*crowd{&l.keeping, &l.flow} {
		require.Eventually(l, func() bool { return c.book.GrantedAfter(after) }, settleTimeout, 20*time.Millisecond,
			"no grant; the errors: %v", c.book.Errors())
	}
}

// end stops the callers.
func (l *load) end() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.running.Wait()
}

// loss is the grants of each Join that a killed server may have made and its replica lacks. Their
// calls ended at the newest grant of the replica or later, and began before the server was killed.
type loss struct{ keeping, flow, dead time.Time }

// permits returns the permits of such calls.
func (s loss) permits(c *crowd, newest time.Time) (sum int64) {
	for _, g := range c.book.Grants() {
		if !s.dead.IsZero() && !g.End.Before(newest) && !g.Start.After(s.dead) {
			sum += g.Permits
		}
	}
	return sum
}

// finish ends the load and asserts the promises. kinds are those of the errors that callers may have
// had, besides ends of contexts. Without kinds every reply arrived, and permits of cancelled callers
// were released. It returns the taken permits of each part, those of successful calls,
// and those of failed calls.
func (l *load) finish(lost loss, kinds ...string) (taken map[string]int64, granted, unknown int64) {
	l.Helper()
	l.end()
	ended := time.Now()
	require.Less(l, l.latest.Get(), late, "a call returned long after its context ended")
	for _, c := range []*crowd{&l.keeping, &l.flow} {
		require.Empty(l, c.book.Unclassified(), "errors of unknown kinds")
		for kind, n := range c.book.Errors() {
			require.Contains(l, append(kinds, "deadline", "cancelled"), kind, "%d errors", n)
		}
	}

	// No interval holds more than the rate, and all permits return.
	require.LessOrEqual(l, l.flow.book.Worst(interval).Permits, rate+lost.permits(&l.flow, lost.flow))
	require.Greater(l, float64(l.flow.book.Permits()), rate*ended.Sub(l.started).Seconds()/10, "the load was idle")
	time.Sleep(time.Until(ended.Add(interval + interval/10))) // a cell of the SlidingWindow later
	seen, err := l.flow.limiter.Peek(context.Background())
	require.NoError(l, err)
	for i, d := range seen {
		require.EqualValues(l, rate, d.Remaining, "part %d", i+1)
	}
	all, err := l.flow.limiter.TryAcquire(context.Background(), rate)
	require.NoError(l, err)
	require.True(l, all)

	// No part took permits without the others, once those of cancelled callers are released.
	granted, unknown = l.keeping.book.Permits(), l.keeping.unknown.Load()
	most := granted
	if kinds != nil {
		most += unknown
	}
	for taken = l.held(hour, time.Hour); !l.agree(taken, granted, most) && time.Since(ended) < settleTimeout; {
		time.Sleep(20 * time.Millisecond)
		taken = l.held(hour, time.Hour)
	}
	mayBeLost := lost.permits(&l.keeping, lost.keeping)
	calls := l.keeping.book.Figures("", plenty, time.Hour, 0, 0).Calls()
	l.Logf("%d calls, errors %v; %d permits granted to callers, of which may be lost %d; %d requested by calls "+
		"that failed; taken by each part: %v",
		calls, l.keeping.book.Errors(), granted, mayBeLost, unknown, taken)
	require.True(l, l.agree(taken, granted, most), "the parts do not agree, or more is taken than was requested")
	require.GreaterOrEqual(l, taken["quota"], granted-mayBeLost,
		"callers were granted permits that Redis does not count")
	l.Logf("the waiting callers; the latest call returned %v after its context ended: %v",
		l.latest.Get().Round(time.Millisecond), l.flow.book.Figures(l.Name(), rate, interval, 0, 0))
	return taken, granted, unknown
}

// agree reports whether no part has taken permits without the others, and none has taken more than
// most. If no call was lost, each has taken the granted permits.
func (l *load) agree(taken map[string]int64, granted, most int64) bool {
	own := taken["window"]
	for part, permits := range taken {
		// A release to a bucket subtracts what was refilled since the call, far less than a permit here.
		// So a bucket may lack one more permit.
		if part != "quota" && permits != own && (part != "bucket" || permits != own+1) {
			return false
		}
	}
	if granted == most {
		return own == granted && taken["quota"] == granted
	}
	// Separate calls release the permits of a caller that left, and a fault may end the call to quota.
	return own <= most && taken["quota"] <= own+l.keeping.left.Load()
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}
