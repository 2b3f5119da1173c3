// Package crowd_test runs Java and Go processes that share one limiter.
package crowd_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/monitor"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/suite"
)

func TestMain(m *testing.M) { suite.Processes(m, member) }

const (
	processes = 2 // of each language
	interval  = 500 * time.Millisecond
	rate      = 200
)

// duration is how long a crowd lasts: CROWD, by default 3s.
var duration = env.Duration("CROWD", 3*time.Second)

// Two JVMs and two Go processes take 1 to 3 permits at a time, by every call. Together they never
// get more than the rate in an interval. An interval after all have stopped, every permit is free.
func TestCrowd_GoAndJava_KeepTheRate(t *testing.T) {
	for _, version := range oracle.VersionsToTest() {
		if strings.HasPrefix(version, "3.16.") {
			continue // such a release cannot read the grants of any later one, nor ours
		}
		t.Run(version, func(t *testing.T) {
			server := servers.Single(t)
			var jvms []*oracle.Redisson
			for range processes {
				jvms = append(jvms, oracle.Start(t, version, oracle.Single(server.Addr())))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			redis := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}})
			limiter := rratelimiter.New(redis).Limiter("crowded")
			require.NoError(t, limiter.SetRate(ctx, rratelimiter.Rate{Permits: rate, Interval: interval}))

			quotes := monitor.Quotes(t, server.Addr())
			grants := monitor.WatchGrants(t, server.Addr(), "{"+limiter.Name()+"}:permits", interval)

			begin := time.Now().Add(500 * time.Millisecond)
			end := begin.Add(duration)
			var members []*suite.Process
			for range processes {
				members = append(members, suite.Start(t,
					task{Addr: server.Addr(), Limiter: limiter.Name(), Begin: begin, End: end}))
			}
			time.Sleep(time.Until(begin))
			var books []*ledger.Ledger
			var running sync.WaitGroup
			for _, jvm := range jvms {
				book := ledger.New(nil)
				books = append(books, book)
				running.Go(func() { crowdInJava(ctx, jvm.Limiter(limiter.Name()), end, book) })
			}
			goroutines := make([]int, processes)
			for i, member := range members {
				book := ledger.New(nil)
				books = append(books, book)
				running.Go(func() { goroutines[i] = crowdInGo(member, book) })
			}
			remainder := ledger.New(nil)
			running.Go(func() { takeRemainder(ctx, limiter, end, remainder) })
			running.Wait()
			seen := grants.Seen(t)

			// Permits of cancelled callers may be under release, and the interval ends with its last
			// millisecond.
			time.Sleep(interval + 100*time.Millisecond)
			free, err := limiter.AvailablePermits(ctx)
			require.NoError(t, err)
			freeInJava, err := jvms[0].Limiter(limiter.Name()).AvailablePermits(ctx)
			require.NoError(t, err)

			all := ledger.New(nil)
			for i, book := range books {
				require.NotEmpty(t, book.Grants(), "process %d got no permit; Java's come first", i)
				all.Merge(book)
			}
			all.Merge(remainder)
			sum := all.Figures("all, Redisson "+version, rate, interval, rate-free, goroutines[0]+goroutines[1])
			t.Logf("%d permits in %v, for %v:\n%s", rate, interval, duration, ledger.Table(sum))

			if quotes {
				t.Logf("Redis granted %d permits in %d grants, %d of which were released in part or as a whole; callers booked %d",
					seen.Permits, seen.Added, seen.Returned, all.Permits())
				require.EqualValues(t, rate, seen.Worst,
					"the most permits that counted at once, at %v; less: the limiter was never exhausted", seen.When)
				require.Zero(t, seen.Unknown)
				require.LessOrEqual(t, all.Permits(), seen.Permits, "callers were granted permits that Redis does not count")
			}
			require.LessOrEqual(t, sum.Worst, int64(rate))
			require.Empty(t, all.Unclassified())
			require.Zero(t, sum.Missing)
			require.EqualValues(t, rate, freeInJava)
			require.Zero(t, sum.Goroutines)
			granted, err := limiter.TryAcquire(ctx, rate)
			require.NoError(t, err)
			require.True(t, granted, "all permits are free at once")
		})
	}
}

// crowdInJava runs threads of a JVM that take permits by every call until the end, and books them.
func crowdInJava(ctx context.Context, l *oracle.Limiter, end time.Time, book *ledger.Ledger) {
	var ways sync.WaitGroup
	for _, crowd := range []oracle.Crowd{
		{Threads: 1, Permits: 1},
		{Threads: 1, Permits: 2},
		{Threads: 1, Permits: 3},
		{Threads: 2, Permits: 2, AcquireTimeout: 200 * time.Millisecond},
		{Threads: 2, Permits: 3, AcquireTimeout: duration},
	} {
		ways.Go(func() {
			crowd.Duration = time.Until(end)
			got, err := l.Crowd(ctx, crowd)
			if err != nil {
				book.Failed(err, 1)
			}
			got.Book(book)
		})
	}
	ways.Go(func() {
		for time.Now().Before(end) {
			permits := 1 + rand.Int64N(3)
			_, _ = book.Time("java", permits, func() (bool, error) { return true, l.Acquire(ctx, permits) })
		}
	})
	ways.Wait()
}

// takeRemainder requests one permit more than is free, and then what is free, once an interval. So
// the limiter is exhausted even if the other callers are slow, and a permit above the rate would be
// taken.
func takeRemainder(ctx context.Context, l *rratelimiter.Limiter, end time.Time, book *ledger.Ledger) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for time.Now().Before(end) {
		<-tick.C
		free, err := l.AvailablePermits(ctx)
		if err != nil {
			book.Failed(err, 1)
			continue
		}
		for permits := min(free+1, rate); permits > max(0, free-1); permits-- {
			_, _ = book.Time("remainder", permits, func() (bool, error) { return l.TryAcquire(ctx, permits) })
		}
	}
}

// crowdInGo books the calls of a Go process, and returns the number of goroutines that it left.
func crowdInGo(member *suite.Process, book *ledger.Ledger) int {
	var r report
	if err := member.Report(&r); err != nil {
		book.Failed(err, 1)
	}
	book.Granted(r.Grants...)
	book.Denied(r.Denials)
	for text, n := range r.Errors {
		book.Failed(errors.New(text), n)
	}
	return r.Goroutines
}
