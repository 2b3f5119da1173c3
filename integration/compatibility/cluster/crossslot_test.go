package cluster_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
)

// badNames are names whose keys do not share a slot: a brace that never closes, one that never
// opened, and an empty tag. The second key of each is the first that lies elsewhere.
var badNames = []struct{ name, value string }{
	{"a{b", "a{b:value"},
	{"a}b", "{a}b}:value"},
	{"{}a", "{}a:value"},
	{"a{}{b}", "a{}{b}:value"},
	{"}", "{}}:value"},
	{"{", "{:value"},
}

// No call can work on a name whose keys do not share a slot. Redisson lets the server refuse it.
// Here nothing is sent, and the error names the slot of each key.
func TestLimiter_KeysInDifferentSlots_ReturnsErrCrossSlot(t *testing.T) {
	ctx := t.Context()
	for _, bad := range badNames {
		slots := slotsOf(t, bad.name, bad.value)
		require.NotEqual(t, slots[0], slots[1], "%q would be a good name", bad.name)
		l := client.Limiter(bad.name)
		for call, do := range everycall.OfOneName(l, rratelimiter.Rate{Permits: 1, Interval: time.Second}) {
			err := do(ctx)
			require.ErrorIs(t, err, rratelimiter.ErrCrossSlot, "%s of %q", call, bad.name)
			require.ErrorContains(t, err,
				fmt.Sprintf("%q is in slot %d, %q in slot %d", bad.name, slots[0], bad.value, slots[1]), call)
		}
		for _, key := range []string{bad.name, bad.value} {
			require.Equal(t, []string{""}, contents(t, []string{key}), "%q was written", key)
		}

		_, err := redisson.Limiter(bad.name).TryAcquire(ctx, 1)
		var thrown *oracle.Error
		require.ErrorAs(t, err, &thrown)
		require.Contains(t, thrown.Message, "CROSSSLOT", "what Redisson says of %q", bad.name)
	}
}
