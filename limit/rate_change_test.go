package limit

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// lowered are policies and those that a later version of a program has in their place: a lower rate, or one
// that takes longer until all permits are free.
var lowered = map[string]struct{ old, now Policy }{
	"window":          {FixedWindow{20, time.Minute, false}, FixedWindow{5, time.Minute, false}},
	"aligned":         {FixedWindow{20, time.Minute, true}, FixedWindow{5, time.Minute, true}},
	"calendar":        {Calendar{20, Day, nil}, Calendar{5, Day, nil}},
	"cells":           {SlidingWindow{20, time.Minute, 0}, SlidingWindow{5, time.Minute, 0}},
	"log":             {SlidingLog{20, time.Minute}, SlidingLog{5, time.Minute}},
	"bucket":          {TokenBucket{20, 10, time.Second}, TokenBucket{20, 1, time.Second}},
	"larger bucket":   {TokenBucket{20, 1, time.Second}, TokenBucket{200, 1, time.Second}},
	"cheaper plan":    {TokenBucket{50_000, 50_000, time.Minute}, TokenBucket{5000, 5000, time.Minute}},
	"leaky":           {LeakyBucket{20, 10, time.Second}, LeakyBucket{20, 1, time.Second}},
	"drip":            {Drip{10, time.Second}, Drip{20, time.Second}},
	"smooth":          {Smooth{Permits: 10, Interval: time.Second}, Smooth{Permits: 1, Interval: time.Second}},
	"smooth, stores":  {Smooth{10, time.Second, time.Second, 0}, Smooth{10, time.Second, time.Minute, 0}},
	"warm-up":         {Smooth{10, time.Second, 0, 2 * time.Second}, Smooth{2, time.Second, 0, 10 * time.Second}},
	"places":          {InFlight{Permits: 20, Lease: time.Minute}, InFlight{Permits: 5, Lease: time.Minute}},
	"places, shorter": {InFlight{Permits: 20, Lease: time.Minute}, InFlight{Permits: 5, Lease: time.Second}},
}

// denying are calls that are denied.
var denying = map[string]func(t *testing.T, f *fixture, l *Limiter, permits int64){
	"Take": func(t *testing.T, _ *fixture, l *Limiter, permits int64) {
		require.False(t, redistest.Result(t, l.Take, permits).Allowed)
	},
	"TryAcquire": func(t *testing.T, _ *fixture, l *Limiter, permits int64) {
		require.False(t, redistest.Result(t, l.TryAcquire, permits))
	},
	"TryAcquireWithin": func(t *testing.T, _ *fixture, l *Limiter, permits int64) {
		require.False(t, tryWithin(t, l, permits, time.Millisecond))
	},
	"a Join": func(t *testing.T, f *fixture, l *Limiter, permits int64) {
		empty := New(f.client, "{name}other", FixedWindow{1, time.Hour, false})
		_, _ = takeUpTo(t, empty, 1)
		require.False(t, redistest.Result(t, Join(empty, l).TryAcquire, 1))
	},
}

// TestRateLowered_ADenial_KeepsTheState: all permits are taken under one rate, and a call under a lower one is
// denied. However long no call follows, permits return at the lower rate.
func TestRateLowered_ADenial_KeepsTheState(t *testing.T) {
	t.Parallel()
	for name, test := range lowered {
		for call, deny := range denying {
			runWithRedis(t, name+", "+call, func(t *testing.T, f *fixture) {
				d, _ := policy.Of(test.old)
				open := func(of string) *Limiter {
					for range 2 { // a Smooth grants in advance
						_, _ = takeUpTo(t, New(f.client, of, test.old), d.Quota)
					}
					return New(f.client, of, test.now)
				}
				empty := New(f.client, "{name}empty", FixedWindow{1, 1000 * time.Hour, false})
				_, _ = takeUpTo(t, empty, 1)
				report := func(l *Limiter) rratelimiter.Decision { // of a denial
					return redistest.Result(t, Join(empty, l).TakeEach, 1)[1]
				}
				for percent := 5; percent < 100; percent += redistest.Deep(30, 10) {
					of := fmt.Sprint("{name}", percent)
					want, l := report(open(of+"same")), open(of)
					deny(t, f, l, want.Remaining+1)
					after := want.ResetAfter * time.Duration(percent) / 100
					time.Sleep(after)
					got := report(l)
					assert.InDelta(t, want.ResetAfter-after, got.ResetAfter, 2e6, "%d %%: %+v, first %+v", percent, got, want)
				}
			})
		}
	}
}

// TestRateLowered_TwoVersions_KeepBothRates: for a while, two versions of a program share a bucket, each with
// its rate. They take, settle and pause. A call finds free what the last grant left, and what was refilled
// since at the rate of the caller. That holds for as long as the last call of the new version reported.
func TestRateLowered_TwoVersions_KeepBothRates(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ old, now Policy }{
		"bucket": {TokenBucket{20, 10, time.Second}, TokenBucket{20, 1, time.Second}},
		"leaky":  {LeakyBucket{20, 10, time.Second}, LeakyBucket{20, 1, time.Second}},
		"plan":   {TokenBucket{20, 60, time.Minute}, TokenBucket{20, 1, time.Minute}},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			random := rand.New(rand.NewPCG(3, 4))
			old := New(f.client, "name", test.old, Pause{time.Minute})
			now := New(rratelimiter.New(f.Conn), "name", test.now, Pause{time.Minute})
			begin, paused := time.Now(), time.Now()
			left, at := 20.0, begin // free by the last grant
			kept := begin           // until then, by the last report of the new version
			rate := func(p Policy) float64 {
				d, _ := policy.Of(p)
				return float64(d.Local.Returns) / d.Local.Interval.Seconds()
			}
			free := func(p Policy) float64 { return min(20, left+rate(p)*time.Since(at).Seconds()) }
			granted, checked := 0.0, 0
			grant := func(p Policy, n int64) {
				if free(p) == 20 {
					kept = time.Now() // another state begins
				}
				left, at, granted = free(p)-float64(n), time.Now(), granted+float64(n)
			}
			take := func(l *Limiter, p Policy, n int64) {
				if l == now && time.Now().After(kept) && time.Since(at) > time.Second {
					left, at = 20, time.Now() // the key may have expired
				}
				want := free(p)
				got, d := takeUpTo(t, l, n)
				if time.Now().Before(paused) {
					require.Zero(t, got)
				} else {
					checked++
					require.LessOrEqual(t, float64(got+d.Remaining), want+1.001, "%v after the beginning", time.Since(begin))
				}
				if got > 0 {
					grant(p, got)
				}
				if full := time.Duration((20 - free(p)) / rate(p) * 1e9); l == now && time.Until(kept) < full {
					kept = time.Now().Add(full)
				}
			}
			minutes := redistest.Deep(15, 60)
			for time.Since(begin) < time.Duration(minutes)*time.Minute {
				time.Sleep(time.Duration(random.ExpFloat64() * float64(2*time.Second)).Round(time.Millisecond))
				n := 1 + random.Int64N(20)
				switch random.IntN(8) {
				case 0, 1:
					take(old, test.old, n)
				case 2:
					var taken Taken
					if d, err := taken.Take(t.Context(), n, old); err == nil && d.Allowed {
						grant(test.old, n)
						time.Sleep(100 * time.Millisecond)
						require.NoError(t, taken.Settle(t.Context(), n/2))
						left, at = float64(redistest.Peek(t, old)[0].Remaining+1), time.Now()
						granted -= float64(n - n/2)
					}
				case 3:
					d := time.Duration(random.Int64N(int64(4 * time.Second))).Round(time.Millisecond)
					pauseFor(t, now, d)
					if end := time.Now().Add(d); end.After(paused) || d == 0 {
						paused = end
					}
				default:
					take(now, test.now, n)
				}
				require.LessOrEqual(t, granted, 21+rate(test.old)*time.Since(begin).Seconds())
			}
			assert.Greater(t, checked, 8*minutes)
		})
	}
}

// TestRateLowered_PeekAndDrain_ReportNoMoreThanTheTTL: they prolong no state. So when the times that they report
// have passed, all is free.
func TestRateLowered_PeekAndDrain_ReportNoMoreThanTheTTL(t *testing.T) {
	for _, name := range []string{"bucket", "cheaper plan", "leaky", "drip", "smooth", "smooth, stores", "warm-up"} {
		test := lowered[name]
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			d, _ := policy.Of(test.old)
			for range 2 {
				_, _ = takeUpTo(t, New(f.client, "name", test.old), d.Quota)
			}
			l := New(f.client, "name", test.now)
			for before := time.Duration(1 << 62); ; {
				seen := redistest.Peek(t, l)[0]
				assert.Equal(t, seen, redistest.Result(t, l.Drain, maxPermits))
				ttl := f.Redis.TTL(l.protocol.keys[0])
				require.LessOrEqual(t, seen.ResetAfter, ttl)
				require.LessOrEqual(t, seen.RetryAfter, seen.ResetAfter)
				require.Less(t, ttl, before, "neither prolongs the state")
				if ttl == 0 {
					break
				}
				before = ttl
				time.Sleep(max(time.Millisecond, ttl/3))
			}
			assert.Empty(t, f.Redis.Keys())
		})
	}
}

// TestMostChanged_PauseOfOthers_LastsAsReported: each version of a program has a Most of its own.
func TestMostChanged_PauseOfOthers_LastsAsReported(t *testing.T) {
	f := newClocked(t)
	f.set(begin - begin%1000)
	window := FixedWindow{10, time.Hour, false}
	long, short := New(f.client, "name", window, Pause{time.Hour}), New(f.client, "name", window, Pause{time.Second})
	pauseFor(t, long, 30*time.Second)
	f.advance(10 * time.Second)
	pauseFor(t, short, time.Minute) // it is cut to a second
	for _, l := range []*Limiter{long, short} {
		assert.Equal(t, 20*time.Second, redistest.Result(t, l.Take, 1).RetryAfter)
		assert.Equal(t, 20*time.Second, redistest.Peek(t, l)[1].RetryAfter)
	}
	f.advance(20*time.Second - time.Millisecond)
	assert.False(t, redistest.Result(t, short.TryAcquire, 1))
	pauseFor(t, short, time.Minute)
	assert.Equal(t, time.Second, redistest.Result(t, long.Take, 1).RetryAfter)
	f.advance(time.Second)
	assert.True(t, redistest.Result(t, short.TryAcquire, 1))
}

// TestCellsChanged_StatesAreApart: each version of a program has cells of its own, which last as it reported.
func TestCellsChanged_StatesAreApart(t *testing.T) {
	f := newClocked(t)
	coarse := New(f.client, "name", SlidingWindow{10, time.Minute, 2})
	fine := New(f.client, "name", SlidingWindow{10, time.Minute, 60})
	require.True(t, redistest.Result(t, coarse.TryAcquire, 10))
	denied := redistest.Result(t, coarse.Take, 1)
	for range 60 {
		f.advance(time.Second)
		got := redistest.Result(t, fine.TryAcquire, 1)
		assert.Equal(t, f.now-begin <= 10e6 || f.now-begin >= 61e6, got)
	}
	f.advance(denied.ResetAfter - time.Minute - time.Microsecond)
	assert.False(t, redistest.Result(t, coarse.TryAcquire, 1))
	f.advance(time.Microsecond)
	assert.True(t, redistest.Result(t, coarse.TryAcquire, 10))
}
