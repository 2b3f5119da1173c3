package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
)

// moves are the calls that give a limiter another name. A move that is not done is an error.
var moves = map[string]func(context.Context, *rratelimiter.Limiter, string) error{
	"Rename": func(ctx context.Context, l *rratelimiter.Limiter, to string) error { return l.Rename(ctx, to) },
	"RenameNX": func(ctx context.Context, l *rratelimiter.Limiter, to string) error {
		return done(l.RenameNX(ctx, to))
	},
	"Copy": func(ctx context.Context, l *rratelimiter.Limiter, to string) error { return done(l.Copy(ctx, to)) },
	"Copy with Replace": func(ctx context.Context, l *rratelimiter.Limiter, to string) error {
		return done(l.Copy(ctx, to, rratelimiter.Replace()))
	},
}

// done returns an error if a move was not done.
func done(ok bool, err error) error {
	if err == nil && !ok {
		return fmt.Errorf("nothing was done")
	}
	return err
}

// limiterWithAllKeys makes a limiter with all five keys: it was Overall and then became PerClient by
// Java's setRate, which leaves the old state.
func limiterWithAllKeys(t *testing.T, name string) *rratelimiter.Limiter {
	t.Helper()
	ctx := t.Context()
	l := client.Limiter(name)
	require.NoError(t, l.SetRate(ctx, rratelimiter.Rate{Permits: 10, Interval: time.Hour}))
	require.NoError(t, l.Acquire(ctx, 3))
	java := redisson.Limiter(name)
	require.NoError(t, java.SetRate(ctx, oracle.Rate{Type: oracle.PerClient, Permits: 20, Interval: time.Hour}))
	require.NoError(t, l.Acquire(ctx, 4))
	t.Cleanup(func() {
		_, err := l.Delete(context.Background())
		require.NoError(t, err)
	})
	return l
}

// No script can move keys to another slot, or to a name whose keys do not share one. The error names
// both slots of a move, and none of the ten keys changes.
func TestRename_OtherSlot_ReturnsErrCrossSlot(t *testing.T) {
	ctx := t.Context()
	from, to := "{tenant9}:here", "{tenant10}:there"
	keys := append(keysOf(from), keysOf(to)...)
	l := limiterWithAllKeys(t, from)
	limiterWithAllKeys(t, to)
	before, slots := contents(t, keys), slotsOf(t, from, to)
	require.NotEqual(t, slots[0], slots[1])
	for call, move := range moves {
		err := move(ctx, l, to)
		require.ErrorIs(t, err, rratelimiter.ErrCrossSlot, call)
		require.ErrorContains(t, err, fmt.Sprintf("%q is in slot %d", from, slots[0]), call)
		require.ErrorContains(t, err, fmt.Sprintf("%q in slot %d", to, slots[1]), call)
		for _, bad := range badNames {
			require.ErrorIs(t, move(ctx, l, bad.name), rratelimiter.ErrCrossSlot, "%s to %q", call, bad.name)
		}
	}
	require.Equal(t, before, contents(t, keys))
}
