package strict_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Calls are dated when they leave, and one may overtake another. A grant counts at some moment of
// its call.
func TestPolicies_HostClock_NoPermitTooMany(t *testing.T) {
	server := servers.Single(t)
	waiting := []way{tryAcquire, take, takeEach, acquire}
	asking := waiting[:3]
	slow := limit.TokenBucket{Capacity: permits, Refill: 2, Interval: interval}
	for name, test := range map[string]struct {
		ways   []way
		policy limit.Policy
		check  func(t *testing.T, grants []grant)
	}{
		"FixedWindow, aligned": {waiting, aligned, func(t *testing.T, grants []grant) {
			fullUnits(t, grants, func(at time.Time) time.Time {
				return time.UnixMilli(at.UnixMilli() - at.UnixMilli()%interval.Milliseconds())
			})
		}},
		"SlidingWindow": {waiting, cells,
			func(t *testing.T, grants []grant) { full(t, float64(inAnyCall(grants, interval))) }},
		"SlidingLog": {waiting, log,
			func(t *testing.T, grants []grant) { full(t, float64(inAnyCall(grants, interval))) }},
		"TokenBucket": {asking, slow,
			func(t *testing.T, grants []grant) { full(t, overStretches(grants, slow.Refill, interval)) }},
		"LeakyBucket": {asking, limit.LeakyBucket{Capacity: slow.Capacity, Leak: slow.Refill, Interval: interval},
			func(t *testing.T, grants []grant) {
				full(t, overStretches(grants, slow.Refill, interval))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, server, time.Now)
			limiters := s.open(test.policy)
			require.NoError(t, limiters[0].Reset(t.Context()))
			test.check(t, s.crowd(length, always(limiters), test.ways...))
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
	grants := s.crowd(2*length, always(limiters), tryAcquire, take, takeEach)
	days := make(map[time.Time]bool)
	fullUnits(t, grants, func(at time.Time) time.Time {
		year, month, date := at.In(berlin).Date()
		begin := time.Date(year, month, date, 0, 0, 0, 0, berlin)
		days[begin] = true
		return begin
	})
	require.Greater(t, len(days), 3)
}

// fullUnits says that no window got a permit too many, and that one was full. What is granted over
// the end of one, to a call that was overtaken, is of the next one.
func fullUnits(t *testing.T, grants []grant, begin func(time.Time) time.Time) {
	t.Helper()
	assert.LessOrEqual(t, inUnits(grants, begin), int64(0), "permits too many")
	late := slices.Clone(grants)
	for i := range late {
		late[i].lo = late[i].hi
	}
	assert.GreaterOrEqual(t, inUnits(late, begin), int64(0), "one permit too many would not have been seen")
}
