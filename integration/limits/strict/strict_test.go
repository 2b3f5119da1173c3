package strict_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// interval is the interval of most policies here, and permits their permits.
const (
	interval = 200 * time.Millisecond
	permits  = 100
)

var (
	window  = limit.FixedWindow{Permits: permits, Interval: interval}
	aligned = limit.FixedWindow{Permits: permits, Interval: interval, Aligned: true}
	cells   = limit.SlidingWindow{Permits: permits, Interval: interval}
	log     = limit.SlidingLog{Permits: permits, Interval: interval}
	bucket  = limit.TokenBucket{Capacity: permits, Refill: 40, Interval: interval}
	leaky   = limit.LeakyBucket{Capacity: permits, Leak: 80, Interval: interval}
	smooth  = limit.Smooth{Permits: 80, Interval: interval, Burst: interval / 2}
	warming = limit.Smooth{Permits: 80, Interval: interval, WarmUp: interval}
)

// each is the time that one permit of leaky, smooth and warming costs.
const each = interval / 80

// check returns by how many permits grants exceed a promise: see checks_test.go.
type check func(grants []grant) float64

// The checks of policies. Those of windows that a clock in Redis dates are exact.
func inEveryWindow(interval time.Duration, aligned bool) check {
	return func(grants []grant) float64 { return float64(inWindows(grants, interval, aligned)) }
}

func inEveryInterval(grants []grant) float64 { return float64(inAnyInterval(grants, interval)) }

func inEveryStretch(refill int64) check {
	return func(grants []grant) float64 { return overStretches(grants, refill, interval) }
}

func paidAt(stored int64) check {
	return func(grants []grant) float64 { return paid(grants, stored, each) }
}

// full asserts that no permit too many was granted, and that the check would have seen one.
func full(t testing.TB, above float64) {
	t.Helper()
	assert.LessOrEqual(t, above, 1e-6, "permits too many")
	assert.Greater(t, above, -1+1e-6, "one permit too many would not have been seen")
}

// The calls that wait, and those that do not.
var (
	waiting    = []way{tryAcquire, take, takeEach, acquire}
	notWaiting = waiting[:3]
	reserving  = waiting[3:]
)

// The server dates calls in the order in which it runs them, so the checks are exact.
func TestPolicies_ServerClock_NoPermitTooMany(t *testing.T) {
	server := servers.Single(t)
	tokens, leak := inEveryStretch(bucket.Refill), inEveryStretch(leaky.Leak)
	for name, test := range map[string]struct {
		ways     []way
		policies []limit.Policy
		checks   []check
	}{
		"FixedWindow":                  {waiting, []limit.Policy{window}, []check{inEveryWindow(interval, false)}},
		"FixedWindow, aligned":         {waiting, []limit.Policy{aligned}, []check{inEveryWindow(interval, true)}},
		"SlidingWindow":                {waiting, []limit.Policy{cells}, []check{inEveryInterval}},
		"SlidingLog":                   {waiting, []limit.Policy{log}, []check{inEveryInterval}},
		"TokenBucket":                  {notWaiting, []limit.Policy{bucket}, []check{tokens}},
		"TokenBucket, reserved too":    {waiting, []limit.Policy{bucket}, []check{tokens}},
		"LeakyBucket":                  {notWaiting, []limit.Policy{leaky}, []check{leak}},
		"LeakyBucket, reserved":        {reserving, []limit.Policy{leaky}, nil},
		"Smooth":                       {notWaiting, []limit.Policy{smooth}, []check{paidAt(smooth.Permits / 2)}},
		"Smooth, reserved":             {reserving, []limit.Policy{smooth}, []check{paidAt(smooth.Permits / 2)}},
		"Smooth, warming up, reserved": {reserving, []limit.Policy{warming}, []check{paidAt(0)}},
		"SlidingLog and TokenBucket":   {waiting, []limit.Policy{log, bucket}, []check{inEveryInterval, tokens}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, server, nil)
			limiters := s.open(test.policies...)
			require.NoError(t, limiters[0].Reset(t.Context()))
			grants := s.crowd(length, always(limiters), test.ways...)
			for _, above := range test.checks {
				full(t, above(grants))
			}
			if test.checks == nil {
				require.InDelta(t, 0, spaced(grants, each), 1e-9)
			}
		})
	}
}

// On the server's clock, no interval exceeds the rate of either limiter.
func TestJoin_RedissonLimiters_NoPermitTooMany(t *testing.T) {
	s := newScene(t, servers.Single(t), nil)
	rates := map[string]rratelimiter.Rate{
		"{crowded}:short": {Permits: permits, Interval: interval},
		"{crowded}:long":  {Permits: permits * 3 / 2, Interval: 2 * interval},
	}
	for name, rate := range rates {
		require.NoError(t, rratelimiter.New(s.taps[0].Client).Limiter(name).SetRate(t.Context(), rate))
	}
	var limiters []*limit.Limiter
	for _, c := range s.clients {
		limiters = append(limiters, limit.Join(c.Limiter("{crowded}:short"), c.Limiter("{crowded}:long")))
	}
	grants := s.crowd(2*length, always(limiters), waiting...)
	for _, rate := range rates {
		full(t, float64(inAnyInterval(limited(grants, rate.Permits), rate.Interval)))
	}
}

// From the first call with the slower policy, all grants are paid for at its pace.
func TestSmooth_PaceChanged_GrantsArePaidFor(t *testing.T) {
	fast := limit.Smooth{Permits: 200, Interval: interval, Burst: interval / 2}
	slow := limit.Smooth{Permits: 50, Interval: interval, Burst: interval / 2}
	s := newScene(t, servers.Single(t), nil)
	before, after := s.open(fast), s.open(slow)
	whole, begun := 2*length, time.Now()
	grants := s.crowd(whole, func() []*limit.Limiter {
		if time.Since(begun) < whole/3 {
			return before
		}
		return after
	}, waiting...)
	var fastOnes, slowOnes []grant
	for _, g := range grants {
		if g.limit == 1000 { // microseconds a permit
			fastOnes = append(fastOnes, g)
		} else {
			slowOnes = append(slowOnes, g)
		}
	}
	full(t, paid(fastOnes, fast.Permits/2, time.Millisecond))
	require.Greater(t, len(slowOnes), 20)
	assert.LessOrEqual(t, paid(slowOnes, slow.Permits/2, 4*time.Millisecond), 1e-6)
}
