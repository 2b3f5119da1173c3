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
