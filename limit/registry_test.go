package limit_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/policy"
	"github.com/rratelimiter/rratelimiter/internal/policy/policytest"
	"github.com/rratelimiter/rratelimiter/limit"
)

func TestValidate_NewPolicy_NeedsDescription(t *testing.T) {
	unregistered := limit.Validate(policytest.Novel{FixedWindow: policytest.Window})
	require.ErrorIs(t, unregistered, rratelimiter.ErrInvalidRate)
	assert.ErrorContains(t, unregistered, "policy 1 is a policytest.Novel, give a policy of this package by value")
	policytest.Register(t)
	require.NoError(t, limit.Validate(policytest.Novel{FixedWindow: policytest.Window}))
	incomplete := limit.Validate(policytest.Incomplete{FixedWindow: policytest.Window})
	require.ErrorIs(t, incomplete, rratelimiter.ErrInvalidRate)
	assert.ErrorContains(t, incomplete, "policy 1: incomplete describes no local share")
}

// Every policy describes itself completely, whatever its fields are.
func TestPolicies_Descriptions_AreComplete(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	keys, kinds := make(map[string]bool), make(map[string]bool)
	for _, p := range []limit.Policy{
		limit.FixedWindow{Permits: 1, Interval: time.Millisecond},
		limit.FixedWindow{Permits: 1 << 53, Interval: time.Hour, Aligned: true},
		limit.Calendar{Permits: 5, Unit: limit.Month},
		limit.Calendar{Permits: 5, Unit: limit.Year, In: berlin},
		limit.SlidingWindow{Permits: 5, Interval: time.Second},
		limit.SlidingLog{Permits: 5, Interval: time.Second},
		limit.TokenBucket{Capacity: 1 << 53, Refill: 1, Interval: time.Second},
		limit.LeakyBucket{Capacity: 1, Leak: 1 << 53, Interval: time.Second},
		limit.Pause{Most: time.Hour},
		limit.Smooth{Permits: 1, Interval: time.Hour},
		limit.Smooth{Permits: 5, Interval: time.Hour, Burst: time.Millisecond, WarmUp: time.Second},
	} {
		d, ok := policy.Of(p)
		require.True(t, ok, "%T", p)
		require.NoError(t, d.Check(), "%+v", p)
		assert.False(t, keys[d.Key], d.Key)
		keys[d.Key] = true
		kinds[d.Name] = true
	}
	assert.Equal(t, policy.Names(), strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
}
