package limit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func pauseFor(t testing.TB, l *Limiter, d time.Duration) {
	t.Helper()
	require.NoError(t, l.Pause(t.Context(), d))
}

// TestPause_AnotherClient_DeniesEverything, and without a pause nothing is stored.
func TestPause_AnotherClient_DeniesEverything(t *testing.T) {
	f := newClocked(t)
	open := func() *Limiter {
		return New(rratelimiter.New(f.connect(), rratelimiter.WithClock(func() time.Time { return time.UnixMicro(f.now) })),
			"name", FixedWindow{10, time.Minute, false}, Pause{time.Hour})
	}
	one, other := open(), open()
	require.True(t, redistest.Result(t, one.Take, 1).Allowed)
	assert.Equal(t, []string{"{name}:window:60000"}, f.redis.Keys())
	pauseFor(t, one, 30*time.Second)
	assert.Equal(t, 90*time.Second, f.redis.TTL("{name}:pause").Round(time.Second))
	f.advance(10 * time.Second)
	const rest = 20*time.Second + 211*time.Microsecond // the end is a whole millisecond
	// All ten permits are free after the ninth step of the pace.
	want := rratelimiter.Decision{Limit: 10, RetryAfter: rest, ResetAfter: rest + 54*time.Second}
	assert.Equal(t, want, redistest.Result(t, other.Take, 1))
	each := redistest.Result(t, other.TakeEach, 1)
	assert.True(t, each[0].Allowed)
	assert.Equal(t, rratelimiter.Decision{RetryAfter: rest, ResetAfter: rest + 54*time.Second}, each[1])
	assert.Equal(t, each, peekAll(t, other))
	f.advance(rest)
	assert.True(t, redistest.Result(t, other.TryAcquire, 1))
	assert.EqualValues(t, 8, peekAll(t, other)[0].Remaining)
}

func TestPause_LengthOutOfBounds_IsCutOrRoundedUp(t *testing.T) {
	f := newClocked(t)
	f.set(begin - begin%1000)
	l := New(f.client, "name", SlidingLog{10, time.Minute}, Pause{time.Hour})
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
	for _, text := range []string{"x", "1", "1 2 3", "-1 2", "1234567890123456 0"} {
		require.NoError(t, f.redis.Set("{name}:pause", text))
		want := &rratelimiter.StateError{Key: "{name}:pause", Value: text}
		assert.Equal(t, want, l.Pause(t.Context(), time.Second))
		assert.Equal(t, want, redistest.Err(l.Take(t.Context(), 1)))
	}
	f.redis.Del("{name}:pause")
	_, err := f.redis.Lpush("{name}:pause", "x")
	require.NoError(t, err)
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
	assert.Equal(t, rratelimiter.Decision{Limit: 10, RetryAfter: time.Minute, ResetAfter: 64500 * time.Millisecond}, d)
	assert.True(t, redistest.Result(t, java.TryAcquire, 1), "by itself it knows no pause")
	pauseFor(t, l, 2*time.Minute)
	assert.Equal(t, 2*time.Minute, redistest.Result(t, gate.Take, 1).RetryAfter)
	f.advance(2 * time.Minute)
	granted, d := takeUpTo(t, l, 10)
	assert.EqualValues(t, 1, granted)
	assert.Equal(t, rratelimiter.Decision{Allowed: true, Limit: 10, ResetAfter: 5 * time.Second}, d)
	assert.Equal(t, 1500*time.Millisecond, redistest.Result(t, l.Take, 3).RetryAfter, "the pace is Redisson's rate")
	f.advance(1500 * time.Millisecond)
	assert.True(t, redistest.Result(t, l.TryAcquire, 3))
	f.advance(3500 * time.Millisecond)
	assert.True(t, redistest.Result(t, l.TryAcquire, 6), "all that are free")
	two := Join(New(f.client, "{n}a", Pause{time.Hour}), New(f.client, "{n}b", Pause{time.Minute}), java)
	pauseFor(t, two, 2*time.Hour)
	for _, of := range []*Limiter{two, New(f.client, "{n}a", Pause{time.Hour}), New(f.client, "{n}b", Pause{time.Hour})} {
		assert.Equal(t, time.Minute, redistest.Result(t, of.Take, 1).RetryAfter, "the shortest Most")
	}
}

// TestPause_Ends_NoBurstFollows: the callers of several Clients that waited through a pause are served at
// the pace until none is left, and so are those that come then. Some use the server's clock.
func TestPause_Ends_NoBurstFollows(t *testing.T) {
	const second = time.Second
	for name, p := range map[string]Policy{
		"window": FixedWindow{10, second, false}, "aligned": FixedWindow{10, second, true},
		"log": SlidingLog{10, second}, "cells": SlidingWindow{10, second, 0},
		"bucket": TokenBucket{10, 10, second}, "large bucket": TokenBucket{20, 10, second},
		"small bucket": TokenBucket{5, 10, second}, "bucket of one": TokenBucket{1, 10, second},
		"leaky": LeakyBucket{10, 10, second}, "smooth": Smooth{Permits: 10, Interval: second},
		"warm-up": Smooth{Permits: 10, Interval: second, WarmUp: 3 * second},
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			pauseFor(t, New(f.client, "name", p, Pause{time.Hour}), 3*second)
			var callers []*Limiter
			for i := range 5 {
				clock := []rratelimiter.Option{rratelimiter.WithServerTime()}[:i%2]
				l := New(rratelimiter.New(f.Conn, clock...), "name", p, Pause{time.Hour})
				callers = append(callers, slices.Repeat([]*Limiter{l}, 5)...)
			}
			at := grantTimes(t, callers)
			slower := name == "cells" || name == "warm-up"
			for i, got := range at {
				due := 3*second + time.Duration(i)*100*time.Millisecond
				assert.GreaterOrEqual(t, got, due, "%v", at)
				assert.True(t, slower || got <= due+10*time.Millisecond, "%v", at)
				assert.GreaterOrEqual(t, got-at[max(0, i-1)], time.Duration(min(i, 1))*90*time.Millisecond, "%v", at)
			}
			granted, _ := takeUpTo(t, callers[0], 1000)
			assert.LessOrEqual(t, granted, int64(1))
			time.Sleep(3 * second)
			free := peekAll(t, New(f.client, "name", p))[0].Remaining
			granted, _ = takeUpTo(t, callers[0], 5)
			assert.Equal(t, min(free, 5), granted, "the pace ends once all permits are free")
		})
	}
}

// TestPause_SeveralPolicies_FastestSetsThePace, within a minute.
func TestPause_SeveralPolicies_FastestSetsThePace(t *testing.T) {
	second, daily := FixedWindow{10, time.Second, false}, SlidingLog{1000, 24 * time.Hour}
	for name, test := range map[string]struct {
		policies []Policy
		pace     time.Duration
	}{
		"two":           {[]Policy{daily, second}, 100 * time.Millisecond},
		"two, turned":   {[]Policy{second, daily}, 100 * time.Millisecond},
		"a slow one":    {[]Policy{daily}, 60 * time.Millisecond},
		"a full bucket": {[]Policy{TokenBucket{20, 5, time.Second}}, 200 * time.Millisecond},
		"none":          {nil, 0},
	} {
		f := newClocked(t)
		f.set(begin - begin%1000)
		l := New(f.client, "name", append(test.policies, Pause{time.Hour})...)
		pauseFor(t, l, time.Second)
		f.advance(time.Second)
		assert.True(t, redistest.Result(t, l.TryAcquire, 1), name)
		assert.Equal(t, test.pace, redistest.Result(t, l.Take, 1).RetryAfter, name)
	}
}

// TestPause_RandomCalls_MatchTheModel: beside each kind of policy, with all fields of a Decision.
func TestPause_RandomCalls_MatchTheModel(t *testing.T) {
	for _, one := range comparedPolicies {
		p := withPause{Policy: one}
		if d, _ := policy.Of(one); d.Refill != policy.Held {
			all := float64(d.Local.Interval.Microseconds()) * float64(d.Local.Permits) / float64(d.Local.Returns)
			p.permits, p.within = d.Local.Permits, int64(math.Round(min(6e7, all)))
		}
		for name, opts := range map[string][]rratelimiter.Option{
			"": nil, ", denials remembered": {rratelimiter.WithDenialCache(1 << 62)},
		} {
			t.Run(fmt.Sprintf("%T%+v%s", p.Policy, p.Policy, name), func(t *testing.T) {
				f := newClocked(t, opts...)
				l := New(f.client, "name", p.Policy, Pause{time.Minute})
				sequence(f, l, p, rand.New(rand.NewPCG(1, 2)), steps)
			})
		}
	}
}

// TestPauseForecast_DuringAPause_KnowsOnePermit: the permits after it come free one after another, which a
// denial from memory must not overlook.
func TestPauseForecast_DuringAPause_KnowsOnePermit(t *testing.T) {
	for permits, want := range map[int64]bool{1: true, 2: false, 5: false} {
		after, known := pauseForecast{usage{5, 0}, 10 * time.Second, time.Second}.wait(permits)
		assert.Equal(t, time.Second, after)
		assert.Equal(t, want, known, permits)
	}
	_, known := pauseForecast{rest: time.Second}.wait(5)
	assert.True(t, known, "without a pace all come free at its end")
}
