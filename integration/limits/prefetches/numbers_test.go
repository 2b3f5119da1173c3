package prefetches_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// quota returns no permit during the test.
const quota = 1_000_000_000

// numbers is a decision with its times, and the permits that it granted.
type numbers struct {
	start, end time.Time
	granted    int64
	rratelimiter.Decision
}

// TestPrefetch_Take_RemainingIsNeverTooLarge: several Clients with prefetches take from a quota that gets none
// back.
// Remaining is at most the quota without what the same Client took before the call. What others took counts too,
// once it is older than a prefetch and a call. Replies to requests of all sizes pass each other.
func TestPrefetch_Take_RemainingIsNeverTooLarge(t *testing.T) {
	window := limit.FixedWindow{Permits: quota, Interval: time.Hour}
	for kind, open := range map[string]func(c *rratelimiter.Client) take{
		"Redisson": func(c *rratelimiter.Client) take {
			return c.Limiter("java", rratelimiter.InitialRate(rratelimiter.Rate{Permits: quota, Interval: time.Hour})).Take
		},
		"FixedWindow": func(c *rratelimiter.Client) take { return limit.New(c, "window", window).Take },
		"TakeEach": func(c *rratelimiter.Client) take {
			l := limit.New(c, "each", window, limit.FixedWindow{Permits: 2 * quota, Interval: 2 * time.Hour})
			return func(ctx context.Context, permits int64) (rratelimiter.Decision, error) {
				each, err := l.TakeEach(ctx, permits)
				if err != nil {
					return rratelimiter.Decision{}, err
				}
				return each[0], nil
			}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			server := servers.Single(t)
			var prefetched atomic.Int64
			all := make([][]numbers, goClients)
			var running sync.WaitGroup
			for client := range all {
				link := proxy.Start(t, server.Addr())
				link.Disturb(t, "latency", "downstream", `"latency": 2, "jitter": 1`)
				take := open(rratelimiter.New(servers.Connect(t, single(link.Listen)), rratelimiter.WithPrefetch(prefetch),
					rratelimiter.WithObserver(countPrefetched(&prefetched))))
				running.Go(func() { all[client] = takeFor(t, take, uint64(client), &prefetched) })
			}
			running.Wait()
			require.Greater(t, prefetched.Load(), int64(enough), "too few grants came from prefetches")
			requireRemaining(t, all)
		})
	}
}

type take func(ctx context.Context, permits int64) (rratelimiter.Decision, error)

// takeFor takes permits on many goroutines for a while, until enough come from prefetches. It returns the decisions.
func takeFor(t *testing.T, take take, seed uint64, prefetched *atomic.Int64) (all []numbers) {
	const takers = 16
	var mu sync.Mutex
	var running sync.WaitGroup
	begin := time.Now()
	for taker := range uint64(takers) {
		running.Go(func() {
			random := rand.New(rand.NewPCG(seed, taker))
			var own []numbers
			for time.Since(begin) < loadTime/4 || prefetched.Load() <= enough && time.Since(begin) < settleTimeout {
				permits := 1 + random.Int64N(1+random.Int64N(3))
				if random.IntN(10) == 0 {
					permits = 100 // more than a prefetch has
				}
				n := numbers{start: time.Now()}
				d, err := take(context.Background(), permits)
				if n.end = time.Now(); err != nil {
					t.Error(err)
					break
				}
				if n.Decision = d; d.Allowed {
					n.granted = permits
				}
				if own = append(own, n); len(own)%16 == 0 {
					time.Sleep(time.Duration(random.Int64N(int64(time.Millisecond))))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
		})
	}
	running.Wait()
	return all
}

// requireRemaining compares the decisions of Clients with what all have taken.
func requireRemaining(t *testing.T, all [][]numbers) {
	t.Helper()
	taken := make([]history, len(all))
	var stale time.Duration // the longest time from the call of a reply to the last decision by it
	decisions := 0
	for i, of := range all {
		taken[i] = historyOf(of)
		decisions += len(of)
		for _, n := range of {
			stale = max(stale, prefetch+n.end.Sub(n.start))
		}
	}
	var above, tooLarge int
	worst := int64(0)
	for i, of := range all {
		for _, n := range of {
			most := quota - taken[i].before(n.start) - n.granted
			for other := range all {
				if other != i {
					most -= taken[other].before(n.start.Add(-stale))
				}
			}
			if n.Remaining > n.Limit {
				above++
			}
			if n.Remaining > most {
				tooLarge++
				worst = max(worst, n.Remaining-most)
			}
		}
	}
	t.Logf("%d decisions, the oldest numbers %v old", decisions, stale)
	require.Zero(t, above, "decisions with a Remaining above Limit")
	require.Zero(t, tooLarge, "decisions of %d with a Remaining that is too large, by up to %d", decisions, worst)
}

// history is what a Client has taken, by the ends of its grants.
type history struct {
	ends  []time.Time
	total []int64 // up to each
}

func historyOf(all []numbers) (h history) {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b numbers) int { return a.end.Compare(b.end) })
	sum := int64(0)
	for _, n := range sorted {
		sum += n.granted
		h.ends, h.total = append(h.ends, n.end), append(h.total, sum)
	}
	return h
}

// before returns the permits of all grants that had ended by then.
func (h history) before(at time.Time) int64 {
	if i := sort.Search(len(h.ends), func(i int) bool { return !h.ends[i].Before(at) }); i > 0 {
		return h.total[i-1]
	}
	return 0
}
