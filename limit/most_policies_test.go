package limit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// TestPolicies_MostOfAKind_FitEachScript: Lua has a limit for the locals of a script.
func TestPolicies_MostOfAKind_FitEachScript(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(d time.Duration) Policy{
		"FixedWindow":   func(d time.Duration) Policy { return FixedWindow{10, d, false} },
		"aligned":       func(d time.Duration) Policy { return FixedWindow{10, d, true} },
		"Calendar":      func(d time.Duration) Policy { return Calendar{10, Year, time.FixedZone(d.String(), 0)} },
		"SlidingWindow": func(d time.Duration) Policy { return SlidingWindow{10, d, 0} },
		"SlidingLog":    func(d time.Duration) Policy { return SlidingLog{10, d} },
		"TokenBucket":   func(d time.Duration) Policy { return TokenBucket{10, 7, d} },
		"LeakyBucket":   func(d time.Duration) Policy { return LeakyBucket{10, 7, d} },
		"Smooth":        func(d time.Duration) Policy { return Smooth{Permits: 7, Interval: d} },
	} {
		runWithRedis(t, name, func(t *testing.T, f *fixture) {
			var policies []Policy
			for i := range policy.MaxJoined {
				policies = append(policies, of(time.Duration(i+1)*time.Hour))
			}
			l := New(f.client, "name", policies...)
			require.NoError(t, l.Acquire(t.Context(), 1))
			assert.Len(t, redistest.Result(t, l.TakeEach, 1), policy.MaxJoined)
			assert.Len(t, peekAll(t, l), policy.MaxJoined)
			drainTo(t, l, 0)
			require.NoError(t, l.Release(t.Context(), 1))
			require.NoError(t, redistest.Err(l.Charge(t.Context(), 1)))
			require.NoError(t, l.Reset(t.Context()))
			var taken Taken
			d, err := taken.Take(t.Context(), 1, l)
			require.NoError(t, err)
			require.True(t, d.Allowed)
			require.NoError(t, taken.Settle(t.Context()))
		})
	}
}
