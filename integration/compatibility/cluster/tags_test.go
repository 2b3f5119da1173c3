package cluster_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// A service that limits each tenant by the second and by the minute gives both limiters the tenant
// as hash tag. All their keys are in one slot, so a limiter can be renamed to the other, and both
// fail or work together.
func TestLimiter_SharedHashTag_SharesASlot(t *testing.T) {
	second, minute := "{tenant7}:second", "{tenant7}:minute"
	both := append(keysOf(second, second, client.ID()), keysOf(minute, minute, client.ID())...)
	slots := slotsOf(t, append(both, "tenant7")...)
	for i, slot := range slots {
		require.Equal(t, slots[0], slot, "%q", append(both, "tenant7")[i])
	}
	// Without a tag they would be strangers.
	other := slotsOf(t, "tenant7:second", "tenant7:minute")
	require.NotEqual(t, other[0], other[1])

	ctx := t.Context()
	for _, name := range []string{second, minute} {
		l := client.Limiter(name)
		require.NoError(t, l.SetRate(ctx, rratelimiter.Rate{Permits: 3, Interval: time.Hour}))
		ok, err := l.TryAcquire(ctx, 1)
		require.NoError(t, err)
		require.True(t, ok)
		defer func() { _, _ = l.Delete(ctx) }()
	}
	// The keys are where the names say: one node serves them all in one command.
	n, err := redis.Do(ctx, redis.B().Exists().Key(both...).Build()).AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 2*3, n, "configuration, value and permits of each")
	master, err := nodes.MasterOf(ctx, int(slots[0]))
	require.NoError(t, err)
	message, err := master.Do(ctx, append([]string{"EXISTS"}, both...)...)
	require.NoError(t, err)
	n, err = message.AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 2*3, n)
}
