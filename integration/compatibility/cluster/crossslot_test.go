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

// badNames are names whose keys do not share a slot: they have an unclosed brace, an unopened brace
// or an empty tag. value is the first key in another slot.
var badNames = []struct{ name, value string }{
	{"a{b", "a{b:value"},
	{"a}b", "{a}b}:value"},
	{"{}a", "{}a:value"},
	{"a{}{b}", "a{}{b}:value"},
	{"}", "{}}:value"},
	{"{", "{:value"},
}

// No call works on a name whose keys do not share a slot. Redisson sends it, and the server rejects
// it. This library sends nothing, and the error names the slot of each key.
func TestLimiter_KeysInDifferentSlots_ReturnsErrCrossSlot(t *testing.T) {
	ctx := t.Context()
	for _, bad := range badNames {
		slots := slotsOf(t, bad.name, bad.value)
		require.NotEqual(t, slots[0], slots[1], "the keys of %q share a slot", bad.name)
		l := client.Limiter(bad.name)
		for call, do := range everycall.Of(l, rratelimiter.Rate{Permits: 1, Interval: time.Second}, "other") {
			err := do(ctx)
			require.ErrorIs(t, err, rratelimiter.ErrCrossSlot, "%s of %q", call, bad.name)
			require.ErrorContains(t, err,
				fmt.Sprintf("%q is in slot %d, %q in slot %d", bad.name, slots[0], bad.value, slots[1]), call)
		}
		for _, key := range []string{bad.name, bad.value} {
			written, err := redis.Do(ctx, redis.B().Exists().Key(key).Build()).AsBool()
			require.NoError(t, err)
			require.False(t, written, key)
		}

		_, err := redisson.Limiter(bad.name).TryAcquire(ctx, 1)
		var thrown *oracle.Error
		require.ErrorAs(t, err, &thrown)
		require.Contains(t, thrown.Message, "CROSSSLOT", "Redisson, %q", bad.name)
	}
}
