package strict_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// One hour back, no permit is granted and no call fails. One hour forward, permits return as if the
// hour had passed. Back again, no more permits are granted.
func TestPolicies_ClockJumps_GrantNothingTwice(t *testing.T) {
	const length = 10 * time.Minute
	server := servers.Single(t)
	for name, test := range map[string]struct {
		most     int64 // that are granted at once, one by one
		policies []limit.Policy
	}{
		"FixedWindow": {100, []limit.Policy{limit.FixedWindow{Permits: 100, Interval: length}}},
		"FixedWindow, aligned": {100,
			[]limit.Policy{limit.FixedWindow{Permits: 100, Interval: length, Aligned: true}}},
		"Calendar":      {100, []limit.Policy{limit.Calendar{Permits: 100, Unit: limit.Day}}},
		"SlidingWindow": {100, []limit.Policy{limit.SlidingWindow{Permits: 100, Interval: length}}},
		"SlidingLog":    {100, []limit.Policy{limit.SlidingLog{Permits: 100, Interval: length}}},
		"TokenBucket":   {100, []limit.Policy{limit.TokenBucket{Capacity: 100, Refill: 100, Interval: length}}},
		"LeakyBucket":   {100, []limit.Policy{limit.LeakyBucket{Capacity: 100, Leak: 100, Interval: length}}},
		"Smooth": {101,
			[]limit.Policy{limit.Smooth{Permits: 100, Interval: length, Burst: length}}}, // one more, to be paid for
		"Smooth, warming up":        {1, []limit.Policy{limit.Smooth{Permits: 100, Interval: length, WarmUp: length}}},
		"SlidingLog and Redisson's": {100, []limit.Policy{limit.SlidingLog{Permits: 120, Interval: length}}},
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Date(2026, time.March, 2, 23, 30, 0, 0, time.UTC)
			var off atomic.Int64
			s := newScene(t, server, func() time.Time { return begun.Add(time.Duration(off.Load())) })
			s.largest = 1
			limiters := s.open(test.policies...)
			require.NoError(t, limiters[0].Reset(t.Context()))
			if name == "SlidingLog and Redisson's" {
				rate := rratelimiter.Rate{Permits: 100, Interval: length}
				require.NoError(t, rratelimiter.New(s.taps[0].Client).Limiter("{crowded}").SetRate(t.Context(), rate))
				for i, c := range s.clients {
					limiters[i] = limit.Join(limit.New(c, "{crowded}", test.policies...), c.Limiter("{crowded}"))
				}
			}
			var before int64
			for _, step := range []struct {
				off  time.Duration
				want int64
			}{
				{0, test.most}, {-time.Hour, 0}, {-time.Minute, 0}, {0, 0}, {time.Hour, test.most}, {0, 0},
				{-time.Hour, 0}, {time.Hour, 0},
			} {
				off.Store(int64(step.off))
				s.crowd(0, always(limiters), notWaiting...)
				assert.Equal(t, step.want, s.granted.Load()-before, "at %v", step.off)
				before = s.granted.Load()
			}
		})
	}
}

// The Client dates calls, and one may overtake another. A grant counts at some time of its call.
func TestPolicies_HostClock_NoPermitTooMany(t *testing.T) {
	server := servers.Single(t)
	const refill = 2
	anyCall := func(grants []grant) float64 { return float64(inAnyCall(grants, interval)) }
	for name, test := range map[string]struct {
		ways   []way
		policy limit.Policy
		above  check
	}{
		"SlidingWindow": {waiting, cells, anyCall},
		"SlidingLog":    {waiting, log, anyCall},
		"TokenBucket": {notWaiting, limit.TokenBucket{Capacity: permits, Refill: refill, Interval: interval},
			inEveryStretch(refill)},
		"LeakyBucket": {notWaiting, limit.LeakyBucket{Capacity: permits, Leak: refill, Interval: interval},
			inEveryStretch(refill)},
		"FixedWindow, aligned": {waiting, aligned, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, server, time.Now)
			limiters := s.open(test.policy)
			require.NoError(t, limiters[0].Reset(t.Context()))
			grants := s.crowd(length, always(limiters), test.ways...)
			if test.above != nil {
				full(t, test.above(grants))
				return
			}
			fullUnits(t, grants, func(at time.Time) time.Time {
				return time.UnixMilli(at.UnixMilli() - at.UnixMilli()%interval.Milliseconds())
			})
		})
	}
}

// Days pass in 300 ms each, on a fast clock. One of them is the day in March on which Berlin's
// clocks skip an hour.
func TestCalendar_DaysPass_EachGrantsItsQuota(t *testing.T) {
	const day = 300 * time.Millisecond
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	first, started := time.Date(2026, time.March, 28, 20, 0, 0, 0, berlin), time.Now()
	clock := func() time.Time { return first.Add(time.Since(started) * (24 * time.Hour / day)) }
	s := newScene(t, servers.Single(t), clock)
	limiters := s.open(limit.Calendar{Permits: permits, Unit: limit.Day, In: berlin})
	grants := s.crowd(2*length, always(limiters), notWaiting...)
	days := make(map[time.Time]bool)
	fullUnits(t, grants, func(at time.Time) time.Time {
		year, month, date := at.In(berlin).Date()
		begin := time.Date(year, month, date, 0, 0, 0, 0, berlin)
		days[begin] = true
		return begin
	})
	require.Greater(t, len(days), 3)
}

// fullUnits asserts that no window got a permit too many, and that one was full. A grant to a call
// that was overtaken at the end of a window belongs to the next window.
func fullUnits(t *testing.T, grants []grant, begin func(time.Time) time.Time) {
	t.Helper()
	assert.LessOrEqual(t, inUnits(grants, begin), int64(0), "permits too many")
	late := slices.Clone(grants)
	for i := range late {
		late[i].lo = late[i].hi
	}
	assert.GreaterOrEqual(t, inUnits(late, begin), int64(0), "one permit too many would not have been seen")
}
