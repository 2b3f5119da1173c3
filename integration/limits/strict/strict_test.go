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

// interval is that of most policies here, and permits what they grant in it.
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

// each is what one permit of leaky, smooth and warming costs.
const each = interval / 80

// full says that a check has come to no permit too many, and would have seen one.
func full(t testing.TB, above float64) {
	t.Helper()
	assert.LessOrEqual(t, above, 1e-6, "permits too many")
	assert.Greater(t, above, -1+1e-6, "one permit too many would not have been seen")
}

// The server dates every call in the order in which it runs them, so the check is exact.
func TestPolicies_ServerClock_NoPermitTooMany(t *testing.T) {
	server := servers.Single(t)
	waiting := []way{tryAcquire, take, takeEach, acquire}
	asking := waiting[:3]
	for name, test := range map[string]struct {
		ways     []way
		policies []limit.Policy
		check    func(t *testing.T, grants []grant)
	}{
		"FixedWindow": {waiting, []limit.Policy{window}, func(t *testing.T, grants []grant) {
			full(t, float64(inWindows(grants, interval, false)))
		}},
		"FixedWindow, aligned": {waiting, []limit.Policy{aligned}, func(t *testing.T, grants []grant) {
			full(t, float64(inWindows(grants, interval, true)))
		}},
		"SlidingWindow": {waiting, []limit.Policy{cells}, func(t *testing.T, grants []grant) {
			full(t, float64(inAnyInterval(grants, interval)))
		}},
		"SlidingLog": {waiting, []limit.Policy{log}, func(t *testing.T, grants []grant) {
			full(t, float64(inAnyInterval(grants, interval)))
		}},
		"TokenBucket": {asking, []limit.Policy{bucket}, func(t *testing.T, grants []grant) {
			full(t, overStretches(grants, bucket.Refill, interval))
		}},
		"TokenBucket, reserved too": {waiting, []limit.Policy{bucket}, func(t *testing.T, grants []grant) {
			full(t, overStretches(grants, bucket.Refill, interval))
		}},
		"LeakyBucket": {asking, []limit.Policy{leaky}, func(t *testing.T, grants []grant) {
			full(t, overStretches(grants, leaky.Leak, interval))
		}},
		"LeakyBucket, reserved": {[]way{acquire}, []limit.Policy{leaky}, func(t *testing.T, grants []grant) {
			require.InDelta(t, 0, spaced(grants, each), 1e-9)
		}},
		"Smooth": {asking, []limit.Policy{smooth}, func(t *testing.T, grants []grant) {
			full(t, paid(grants, smooth.Permits/2, each))
		}},
		"Smooth, reserved": {[]way{acquire}, []limit.Policy{smooth}, func(t *testing.T, grants []grant) {
			full(t, paid(grants, smooth.Permits/2, each))
		}},
		"Smooth, warming up, reserved": {[]way{acquire}, []limit.Policy{warming}, func(t *testing.T, grants []grant) {
			full(t, paid(grants, 0, each))
		}},
		"SlidingLog and TokenBucket": {waiting, []limit.Policy{log, bucket}, func(t *testing.T, grants []grant) {
			full(t, float64(inAnyInterval(grants, interval)))
			full(t, overStretches(grants, bucket.Refill, interval))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, server, nil)
			limiters := s.open(test.policies...)
			require.NoError(t, limiters[0].Reset(t.Context()))
			test.check(t, s.crowd(length, always(limiters), test.ways...))
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
	grants := s.crowd(2*length, always(limiters), tryAcquire, take, takeEach, acquire)
	for _, rate := range rates {
		full(t, float64(inAnyInterval(limited(grants, rate.Permits), rate.Interval)))
	}
}
