package limit

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func pauseFor(t testing.TB, l *Limiter, d time.Duration) {
	t.Helper()
	require.NoError(t, l.Pause(t.Context(), d))
}

// TestPause_AnotherClient_DeniesEverything, and without a pause nothing is stored.
func TestPause_AnotherClient_DeniesEverything(t *testing.T) {
	f := newClocked(t)
	f.set(begin - begin%1000)
	open := func() *Limiter {
		return New(rratelimiter.New(f.connect(), rratelimiter.WithClock(func() time.Time { return time.UnixMicro(f.now) })),
			"name", FixedWindow{10, time.Minute, false}, Pause{time.Hour})
	}
	one, other := open(), open()
	require.True(t, redistest.Result(t, one.Take, 1).Allowed)
	assert.Equal(t, []string{"{name}:window:60000"}, f.redis.Keys())
	pauseFor(t, one, 30*time.Second)
	assert.Equal(t, 30*time.Second, f.redis.TTL("{name}:pause"))
	f.advance(10 * time.Second)
	const rest = 20 * time.Second
	want := rratelimiter.Decision{Limit: 10, RetryAfter: rest, ResetAfter: 50 * time.Second}
	assert.Equal(t, want, redistest.Result(t, other.Take, 1))
	each := redistest.Result(t, other.TakeEach, 1)
	assert.True(t, each[0].Allowed)
	assert.Equal(t, rratelimiter.Decision{RetryAfter: rest, ResetAfter: rest}, each[1], "until when it lasts")
	assert.Equal(t, each, redistest.Peek(t, other))
	f.advance(rest)
	assert.True(t, redistest.Result(t, other.TryAcquire, 1))
	assert.EqualValues(t, 8, redistest.Peek(t, other)[0].Remaining)
}

func TestPause_LengthOutOfBounds_IsCutOrRoundedUp(t *testing.T) {
	f, l := clockedLimiter(t, SlidingLog{10, time.Minute}, Pause{time.Hour})
	f.set(begin - begin%1000)
	for d, want := range map[time.Duration]time.Duration{1: time.Millisecond, math.MaxInt64: time.Hour} {
		pauseFor(t, l, d)
		assert.Equal(t, want, redistest.Result(t, l.Take, 1).RetryAfter)
		pauseFor(t, l, 0)
		assert.Empty(t, f.redis.Keys())
	}
}

func TestPause_Invalid_IsATypedError(t *testing.T) {
	f := newClocked(t)
	window := FixedWindow{10, time.Minute, false}
	l := New(f.client, "name", window, Pause{time.Hour})
	twice := Join(l, New(f.client, "name", Pause{time.Minute}))
	assert.ErrorIs(t, twice.Pause(t.Context(), 1), rratelimiter.ErrInvalidRate)
	assert.ErrorIs(t, l.Pause(t.Context(), -1), rratelimiter.ErrInvalidOption)
	without := New(f.client, "name", window)
	assert.ErrorIs(t, without.Pause(t.Context(), time.Second), ErrNotPausable)
	assert.ErrorIs(t, Join(f.client.Limiter("other")).Pause(t.Context(), time.Second), ErrNotPausable)
	assert.ErrorIs(t, new(Limiter).Pause(t.Context(), time.Second), rratelimiter.ErrNoClient)
	assert.Empty(t, f.redis.Keys())
	for text, ttl := range map[string]time.Duration{"x": time.Minute, "1": time.Minute, "paused": 0} {
		require.NoError(t, f.redis.Set("{name}:pause", text))
		if ttl > 0 {
			f.redis.SetTTL("{name}:pause", ttl)
		}
		want := &rratelimiter.StateError{Key: "{name}:pause", Value: text}
		assert.Equal(t, want, l.Pause(t.Context(), time.Second))
		assert.Equal(t, want, redistest.Err(l.Take(t.Context(), 1)))
	}
	f.redis.Del("{name}:pause")
	require.NoError(t, redistest.Err(f.redis.Lpush("{name}:pause", "x")))
	assert.Equal(t, &rratelimiter.StateError{Key: "{name}:pause", Value: "list"}, l.Pause(t.Context(), time.Second))
}

// TestPause_Joined_DeniesAll: the limiter of the pause is one of a Join, beside Redisson's.
func TestPause_Joined_DeniesAll(t *testing.T) {
	f := newClocked(t)
	f.set(begin - begin%1000)
	java := f.client.Limiter("{n}", rratelimiter.InitialRate(rratelimiter.Rate{Permits: 10, Interval: 5 * time.Second}))
	gate := New(f.client, "{n}gate", Pause{time.Hour})
	l := Join(java, gate)
	require.True(t, redistest.Result(t, l.TryAcquire, 2))
	pauseFor(t, gate, time.Minute)
	d := redistest.Result(t, l.Take, 1)
	assert.Equal(t, rratelimiter.Decision{Limit: 10, RetryAfter: time.Minute, ResetAfter: time.Minute}, d)
	assert.True(t, redistest.Result(t, java.TryAcquire, 1), "by itself it knows no pause")
	pauseFor(t, l, 2*time.Minute)
	assert.Equal(t, 2*time.Minute, redistest.Result(t, gate.Take, 1).RetryAfter)
	f.advance(2 * time.Minute)
	assert.Equal(t, rratelimiter.Decision{Allowed: true, Limit: 10, ResetAfter: 5 * time.Second},
		redistest.Result(t, l.Take, 10), "all that are free")
	two := Join(New(f.client, "{n}a", Pause{time.Hour}), New(f.client, "{n}b", Pause{time.Minute}), java)
	pauseFor(t, two, 2*time.Hour)
	for _, of := range []*Limiter{two, New(f.client, "{n}a", Pause{time.Hour}), New(f.client, "{n}b", Pause{time.Hour})} {
		assert.Equal(t, time.Minute, redistest.Result(t, of.Take, 1).RetryAfter, "the shortest Most")
	}
}

// TestPause_Ends_ShareIsAsBefore: callers that always wait take an estimate and settle for a quarter. Beside each
// policy, the permits that they use after a pause are those that they use without one.
func TestPause_Ends_ShareIsAsBefore(t *testing.T) {
	t.Parallel()
	const minute, estimate, used = time.Minute, 80, 20
	policies := map[string]Policy{
		"window": FixedWindow{480, minute, false}, "cells": SlidingWindow{480, minute, 4},
		"bucket":  TokenBucket{480, 480, minute},
		"warm-up": Smooth{Permits: 480, Interval: minute, WarmUp: 10 * time.Second},
	}
	if redistest.Deep(0, 1) > 0 {
		maps.Copy(policies, map[string]Policy{
			"aligned": FixedWindow{480, minute, true}, "log": SlidingLog{480, minute},
			"leaky":        LeakyBucket{480, 480, minute},
			"small bucket": TokenBucket{80, 480, minute}, "smooth": Smooth{Permits: 480, Interval: minute},
		})
	}
	for name, p := range policies {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			usedWith := func(pauses bool) int64 {
				ctx, cancel := context.WithCancel(t.Context())
				var total atomic.Int64
				var all sync.WaitGroup
				for range 2 { // processes
					l := New(rratelimiter.New(f.Conn), fmt.Sprint("name", pauses), p, Pause{time.Hour})
					for range 2 {
						all.Go(func() {
							for taken := new(Taken); taken.Acquire(ctx, estimate, l) == nil; taken = new(Taken) {
								total.Add(used)
								time.Sleep(850 * time.Millisecond)
								_ = taken.Settle(ctx, used)
							}
						})
					}
					time.Sleep(time.Minute) // a new bucket is full
					if pauses {
						pauseFor(t, l, time.Second)
					}
				}
				time.Sleep(minute)
				before := total.Load()
				time.Sleep(time.Duration(redistest.Deep(2, 4)) * 75 * time.Second) // cycles of the cells
				cancel()
				all.Wait()
				return total.Load() - before
			}
			without := usedWith(false)
			assert.InDelta(t, without, usedWith(true), 0.05*float64(without))
		})
	}
}

// TestPause_RandomCalls_MatchTheModel: beside each kind of policy, with all fields of a Decision.
func TestPause_RandomCalls_MatchTheModel(t *testing.T) {
	t.Parallel()
	for i, one := range comparedPolicies {
		for name, opts := range cacheOptions(i) {
			t.Run(fmt.Sprintf("%T%+v%s", one, one, name), func(t *testing.T) {
				f := newClocked(t, opts...)
				f.inMillis(one, opts)
				l := New(f.client, "name", one, Pause{time.Minute})
				sequence(f, l, withPause{one}, rand.New(rand.NewPCG(1, 2)), steps)
			})
		}
	}
}

// paused returns limiters of a name on Clients of their own.
func paused(f *fixture, opts ...rratelimiter.Option) (one, other *Limiter) {
	open := func() *Limiter {
		return New(rratelimiter.New(f.Conn, opts...), "name", FixedWindow{100, time.Second, false}, Pause{time.Hour})
	}
	return open(), open()
}

// TestPause_Waiters_WaitForItsEnd, also those of another Client that have waited for permits when it
// begins. A call that is under way is granted.
func TestPause_Waiters_WaitForItsEnd(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		one, other := paused(f)
		begin := time.Now()
		require.True(t, redistest.Result(t, other.TryAcquire, 100))
		f.Latency.Store(int64(50 * time.Millisecond))
		var all sync.WaitGroup
		wait := func(l *Limiter, timeout time.Duration, want bool, at time.Duration) {
			all.Go(func() {
				ok, err := l.TryAcquireWithin(t.Context(), 1, timeout)
				assert.NoError(t, err)
				assert.Equal(t, want, ok)
				assert.Equal(t, at, time.Since(begin).Truncate(100*time.Millisecond))
			})
		}
		wait(one, 5*time.Second, true, time.Second)
		time.Sleep(1075 * time.Millisecond) // its call is under way
		pauseFor(t, other, 10*time.Second)
		wait(other, 9*time.Second, false, 1200*time.Millisecond)
		wait(one, time.Minute, true, 11100*time.Millisecond)
		all.Wait()
	})
}

// TestPause_EndedByAnotherClient_WaitersLearnIt within seconds, and those of the Client itself at once.
func TestPause_EndedByAnotherClient_WaitersLearnIt(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		one, other := paused(f)
		pauseFor(t, one, time.Hour)
		begin := time.Now()
		var all sync.WaitGroup
		for l, within := range map[*Limiter]time.Duration{one: 0, other: 5 * time.Second} {
			all.Go(func() {
				assert.NoError(t, l.Acquire(t.Context(), 1))
				assert.LessOrEqual(t, time.Since(begin), time.Minute+within)
			})
		}
		time.Sleep(time.Minute)
		calls := f.Scripts.Load()
		assert.LessOrEqual(t, calls, int64(2*60/5+5))
		pauseFor(t, one, 0)
		all.Wait()
	})
}

// TestPause_DenialCache_RemembersIt until its end, and forgets it when this Client ends it.
func TestPause_DenialCache_RemembersIt(t *testing.T) {
	withRedis(t, func(t *testing.T, f *fixture) {
		one, other := paused(f, rratelimiter.WithDenialCache(10*time.Second))
		pauseFor(t, one, 30*time.Second)
		deny := func(l *Limiter, rest time.Duration, calls int64) {
			t.Helper()
			before := f.Scripts.Load()
			for range 5 {
				d := redistest.Result(t, l.Take, 1)
				assert.False(t, d.Allowed)
				assert.Equal(t, rest, d.RetryAfter)
				synctest.Wait() // it is remembered once the caller has it
			}
			assert.Equal(t, calls, f.Scripts.Load()-before, "calls")
		}
		deny(one, 30*time.Second, 1)
		deny(other, 30*time.Second, 1)
		time.Sleep(9 * time.Second)
		deny(other, 21*time.Second, 0)
		time.Sleep(time.Second)
		deny(other, 20*time.Second, 1)
		pauseFor(t, other, 40*time.Second)
		deny(other, 40*time.Second, 1)
		pauseFor(t, other, 0)
		assert.True(t, redistest.Result(t, other.TryAcquire, 1))
		pauseFor(t, other, 3*time.Second)
		deny(other, 3*time.Second, 1)
		time.Sleep(3 * time.Second)
		assert.True(t, redistest.Result(t, other.TryAcquire, 1), "not longer than the pause")
	})
}

// TestPause_Prefetch_EndsWithIt in the Client that pauses, and in another one after its length.
func TestPause_Prefetch_EndsWithIt(t *testing.T) {
	redistest.Run(t, func(t *testing.T, f *redistest.Fixture) {
		open := func() *Limiter {
			return New(rratelimiter.New(f.Conn, rratelimiter.WithPrefetch(100*time.Millisecond)), "name",
				FixedWindow{10_000, time.Hour, false}, Pause{time.Hour})
		}
		one, other := open(), open()
		for _, l := range []*Limiter{other, one} {
			require.Equal(t, 2000, f.CountGranted(l, 2000, 100*time.Microsecond))
			before := f.Scripts.Load()
			require.Equal(t, 100, f.CountGranted(l, 100, 100*time.Microsecond))
			require.LessOrEqual(t, f.Scripts.Load()-before, int64(2), "it prefetches")
		}
		pauseFor(t, one, 10*time.Second)
		assert.Zero(t, f.CountGranted(one, 10, time.Millisecond))
		time.Sleep(100 * time.Millisecond)
		assert.Zero(t, f.CountGranted(other, 10, time.Millisecond))
		time.Sleep(time.Second)
		window := New(rratelimiter.New(f.Conn), "name", FixedWindow{10_000, time.Hour, false})
		assert.EqualValues(t, 10_000-4200, redistest.Peek(t, window)[0].Remaining, "unused permits were returned")
		time.Sleep(9 * time.Second)
		assert.Equal(t, 500, f.CountGranted(one, 500, time.Millisecond))
		time.Sleep(time.Second)
	})
}

// TestPause_ClocksDiffer_ItsLengthIsKept: it ends by the clock of Redis.
func TestPause_ClocksDiffer_ItsLengthIsKept(t *testing.T) {
	f := newClocked(t)
	clock := rratelimiter.WithClock(func() time.Time { return time.UnixMicro(f.clock.Load()).Add(-time.Hour) })
	policies := []Policy{FixedWindow{100, time.Second, false}, Pause{time.Hour}}
	one, behind := New(f.client, "name", policies...), New(rratelimiter.New(f.connect(), clock), "name", policies...)
	for _, of := range []*Limiter{one, behind} {
		pauseFor(t, of, 30*time.Second)
		for _, l := range []*Limiter{one, behind} {
			assert.Equal(t, 30*time.Second, redistest.Result(t, l.Take, 1).RetryAfter)
		}
		f.advance(30 * time.Second)
		for _, l := range []*Limiter{one, behind} {
			assert.True(t, redistest.Result(t, l.TryAcquire, 1))
		}
	}
}
