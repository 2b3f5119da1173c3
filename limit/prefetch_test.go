package limit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// inPrefetch runs a test with prefetches of 10 ms and calls that take half a millisecond.
func inPrefetch(t *testing.T, policies []Policy, test func(t *testing.T, f *redistest.Fixture, l *Limiter)) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		l := New(rratelimiter.New(f.Conn, rratelimiter.WithPrefetch(10*time.Millisecond)), "name", policies...)
		redistest.Peek(t, l)
		f.Latency.Store(int64(500 * time.Microsecond))
		test(t, f, l)
	})
}

// TestPrefetch_LittleIsFree_AnEighthStays: for other processes, while permits are prefetched.
func TestPrefetch_LittleIsFree_AnEighthStays(t *testing.T) {
	policy := FixedWindow{400, time.Hour, false}
	inPrefetch(t, []Policy{policy}, func(t *testing.T, f *redistest.Fixture, l *Limiter) {
		other := New(rratelimiter.New(f.QuickConn()), "name", policy)
		least := policy.Permits
		for taken := int64(0); taken < policy.Permits; {
			taken += int64(f.CountGranted(l, 1, 20*time.Microsecond))
			if free := redistest.Peek(t, other)[0].Remaining; free < policy.Permits-taken {
				least = min(least, free) // others are prefetched
			}
		}
		assert.EqualValues(t, policy.Permits/8, least)
	})
}

// TestPrefetch_ShortWindow_LastsASixteenth of it: a process whose clock is behind uses no prefetch for longer.
func TestPrefetch_ShortWindow_LastsASixteenth(t *testing.T) {
	policy := FixedWindow{100_000, 80 * time.Millisecond, false}
	inPrefetch(t, []Policy{policy}, func(t *testing.T, f *redistest.Fixture, l *Limiter) {
		other := New(rratelimiter.New(f.QuickConn()), "name", policy)
		require.Equal(t, 100, f.CountGranted(l, 100, 20*time.Microsecond))
		assert.Less(t, redistest.Peek(t, other)[0].Remaining, policy.Permits-100, "others are prefetched")
		time.Sleep(6 * time.Millisecond)
		assert.Equal(t, policy.Permits-100, redistest.Peek(t, other)[0].Remaining)
	})
}

// TestPrefetch_RandomCalls_MatchTheModels: a Client that prefetches decides as one that does not. Only
// Remaining may be less: permits that were returned since the last reply do not count.
func TestPrefetch_RandomCalls_MatchTheModels(t *testing.T) {
	t.Parallel()
	for i, p := range comparedPolicies {
		d, _ := policy.Of(p)
		prefetches := member{described: &d}.has("prefetch")
		for name, opts := range cacheOptions(i) {
			t.Run(fmt.Sprintf("%T%+v%s", p, p, name), func(t *testing.T) {
				redistest.Run(t, func(t *testing.T, redis *redistest.Fixture) {
					prefetched := 0
					client := rratelimiter.New(redis.Conn, append(opts, rratelimiter.WithPrefetch(time.Second),
						rratelimiter.WithObserver(&rratelimiter.Observer{Decision: func(_ context.Context, d rratelimiter.DecisionInfo) {
							if d.Source == rratelimiter.FromPrefetch {
								prefetched++
							}
						}}))...)
					f := &clocked{TB: t, redis: redis.Redis, client: client, lives: true}
					f.set(time.Now().UnixMicro())
					f.millis = isWindow(p)
					l := New(client, "name", p)
					sequence(f, l, p, rand.New(rand.NewPCG(1, 2)), steps)
					if prefetches && d.Quota >= 30 {
						assert.Greater(t, prefetched, steps/20, "from prefetches")
					}
					assert.True(t, prefetches || prefetched == 0, "%d from prefetches", prefetched)
					time.Sleep(time.Minute)
				})
			})
		}
	}
}

// passing is a client whose replies pass each other.
type passing struct{ rueidis.Client }

func (c passing) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	time.Sleep(rand.N(2 * time.Millisecond))
	defer time.Sleep(rand.N(2 * time.Millisecond))
	return c.Client.Do(ctx, command)
}

// TestPrefetch_ManyCallers_RemainingIsNeverTooLarge: it is at most the quota without what callers of the same Client had
// taken before the call. What callers of others took longer before than a prefetch and a call last counts too. Requests
// have all sizes.
func TestPrefetch_ManyCallers_RemainingIsNeverTooLarge(t *testing.T) {
	t.Parallel()
	const quota, prefetch = 1_000_000, 50 * time.Millisecond
	window := FixedWindow{quota, time.Hour, false}
	for name, open := range map[string]func(c *rratelimiter.Client) Joinable{
		"FixedWindow": func(c *rratelimiter.Client) Joinable { return New(c, "x", window) },
		"TakeEach": func(c *rratelimiter.Client) Joinable {
			return New(c, "x", window, FixedWindow{2 * quota, 2 * time.Hour, false})
		},
		"Redisson's layout": func(c *rratelimiter.Client) Joinable {
			return c.Limiter("x", rratelimiter.InitialRate(rratelimiter.Rate{Permits: quota, Interval: time.Hour}))
		},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			type taking struct {
				client             int
				start, end         time.Duration
				permits, remaining int64
			}
			var mu sync.Mutex
			var all []taking
			var longest time.Duration
			begin := time.Now()
			prefetched := 0
			var callers sync.WaitGroup
			for client := range 3 {
				l := open(rratelimiter.New(passing{f.Conn}, rratelimiter.WithPrefetch(prefetch),
					rratelimiter.WithObserver(&rratelimiter.Observer{Decision: func(_ context.Context, d rratelimiter.DecisionInfo) {
						mu.Lock()
						defer mu.Unlock()
						if d.Source == rratelimiter.FromPrefetch {
							prefetched++
						}
					}})))
				for range 8 {
					callers.Go(func() {
						for range 60 {
							time.Sleep(rand.N(200 * time.Microsecond))
							permits := 1 + rand.Int64N(1+rand.Int64N(3))
							if rand.IntN(10) == 0 {
								permits = 100 // more than a prefetch has
							}
							start := time.Since(begin)
							var d rratelimiter.Decision
							if each, ok := l.(*Limiter); ok && name == "TakeEach" {
								d = redistest.Result(t, each.TakeEach, permits)[0]
							} else {
								d = redistest.Result(t, l.Take, permits)
							}
							end := time.Since(begin)
							mu.Lock()
							all = append(all, taking{client, start, end, permits, d.Remaining})
							longest = max(longest, end-start)
							mu.Unlock()
						}
					})
				}
			}
			callers.Wait()
			for _, one := range all {
				most := quota - one.permits
				for _, other := range all {
					if other.end < one.start-prefetch-longest || other.client == one.client && other.end < one.start {
						most -= other.permits
					}
				}
				require.LessOrEqual(t, one.remaining, most)
			}
			assert.Greater(t, prefetched, len(all)/4)
		})
	}
}

// TestTakeEach_Prefetch_IsGrantedFromMemory: a prefetch for calls of TakeEach serves calls of TakeEach.
// Limiters that are opened and joined for each request share it, as those of the middleware.
func TestTakeEach_Prefetch_IsGrantedFromMemory(t *testing.T) {
	policies := []Policy{FixedWindow{200_000, time.Hour, false}, Calendar{100_000, Day, nil}}
	inPrefetch(t, policies, func(t *testing.T, f *redistest.Fixture, _ *Limiter) {
		client := rratelimiter.New(f.Conn, rratelimiter.WithPrefetch(10*time.Millisecond))
		open := func(i int) *Limiter { return New(client, []string{"a", "b"}[i], policies[i]) }
		before := f.Scripts.Load()
		for taken := int64(1); taken <= 5000; taken++ {
			time.Sleep(20 * time.Microsecond)
			each := redistest.Result(t, Join(open(0), open(1)).TakeEach, 1)
			require.Len(t, each, 2)
			for i, d := range each {
				require.True(t, d.Allowed)
				require.Equal(t, mostOf(policies[i]), d.Limit)
				require.InDelta(t, mostOf(policies[i])-taken, d.Remaining, 300, "prefetches may return at this time")
				require.Positive(t, d.ResetAfter)
			}
			require.LessOrEqual(t, each[0].ResetAfter, time.Hour)
		}
		assert.Less(t, f.Scripts.Load()-before, int64(60))
		time.Sleep(50 * time.Millisecond)
		for i, p := range policies {
			assert.Equal(t, mostOf(p)-5000, redistest.Peek(t, open(i))[0].Remaining, "unused permits were returned")
		}
	})
}

// TestTakeEach_PrefetchBesideAPause_HasNoTimeBelowZero: without a pause there is no time to wait for.
func TestTakeEach_PrefetchBesideAPause_HasNoTimeBelowZero(t *testing.T) {
	pause := Pause{Most: time.Minute}
	for _, policies := range [][]Policy{{pause}, {FixedWindow{200_000, time.Hour, false}, pause}} {
		inPrefetch(t, policies, func(t *testing.T, f *redistest.Fixture, l *Limiter) {
			before := f.Scripts.Load()
			for range 200 {
				time.Sleep(20 * time.Microsecond)
				require.GreaterOrEqual(t, redistest.Result(t, l.Take, 1).ResetAfter, time.Duration(0))
				each := redistest.Result(t, l.TakeEach, 1)
				require.Zero(t, each[len(each)-1].ResetAfter)
			}
			assert.Less(t, f.Scripts.Load()-before, int64(100), "most are from prefetches")
		})
	}
}

// TestPrefetch_BucketsAndLogs_PrefetchNothing: a bucket would be refilled before the prefetched permits are
// used. Logs and cells keep the latest time that they have seen.
func TestPrefetch_BucketsAndLogs_PrefetchNothing(t *testing.T) {
	for _, p := range []Policy{
		TokenBucket{100_000, 100_000, time.Hour}, LeakyBucket{100_000, 100_000, time.Hour}, SlidingLog{100_000, time.Hour},
		SlidingWindow{100_000, time.Hour, 0}, Smooth{Permits: 1_000_000_000, Interval: time.Second},
	} {
		t.Run(fmt.Sprintf("%T", p), func(t *testing.T) {
			policies := []Policy{p, FixedWindow{100_000, time.Hour, false}}
			inPrefetch(t, policies, func(t *testing.T, f *redistest.Fixture, l *Limiter) {
				before := f.Scripts.Load()
				require.Equal(t, 60, f.CountGranted(l, 60, 20*time.Microsecond))
				assert.Equal(t, int64(60), f.Scripts.Load()-before)
			})
		})
	}
}

// TestPrefetch_AnotherClockAhead_EndsWithItsWindow: the next window begins when Redis ends this one. No permit is
// used on top of it, however far ahead the clock of the client is that begins it.
func TestPrefetch_AnotherClockAhead_EndsWithItsWindow(t *testing.T) {
	const permits, interval = 100_000, 1600 * time.Millisecond
	for name, option := range map[string]rratelimiter.Option{
		"host clocks":        rratelimiter.WithClock(func() time.Time { return time.Now().Add(8 * time.Millisecond) }),
		"the server's clock": rratelimiter.WithServerTime(),
	} {
		t.Run(name, func(t *testing.T) {
			policy := FixedWindow{permits, interval, true}
			inPrefetch(t, []Policy{policy}, func(t *testing.T, f *redistest.Fixture, l *Limiter) {
				end := time.Now().Truncate(interval).Add(2 * interval)
				time.Sleep(time.Until(end) - 100*time.Millisecond)
				f.CountGranted(l, 500, 20*time.Microsecond) // and permits are prefetched
				for time.Until(end) > time.Millisecond {
					f.CountGranted(l, 1, 20*time.Microsecond)
				}
				ahead := New(rratelimiter.New(f.Conn, option), "name", policy)
				uses := 0
				var using sync.WaitGroup
				opened := make(chan time.Time)
				using.Go(func() {
					since := <-opened
					for time.Since(since) < 24*time.Millisecond {
						uses += f.CountGranted(l, 1, 20*time.Microsecond)
					}
				})
				for {
					time.Sleep(20 * time.Microsecond)
					if ok, err := ahead.TryAcquire(t.Context(), permits); err != nil || ok {
						require.NoError(t, err)
						break
					}
				}
				opened <- time.Now()
				using.Wait()
				assert.Zero(t, uses)
			})
		})
	}
}
