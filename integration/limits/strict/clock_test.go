package strict_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// One hour back, nothing is granted and no call fails. One hour forward, permits return as if the
// hour had passed, and back again nothing more is granted.
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
