package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// moves are the calls that give a limiter another name.
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

// copies reports whether a move leaves the old name in place.
func copies(call string) bool { return strings.HasPrefix(call, "Copy") }

// done makes "it did not" an error.
func done(ok bool, err error) error {
	if err == nil && !ok {
		return fmt.Errorf("nothing was done")
	}
	return err
}

// limiterWithAllKeys makes a limiter of which all five keys exist: it was Overall and then became
// PerClient by Java's setRate, which leaves the old pair behind.
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

// Within a slot a limiter moves with everything that it has.
func TestRename_SameSlot_MovesAllKeys(t *testing.T) {
	ctx := t.Context()
	for call, move := range moves {
		t.Run(call, func(t *testing.T) {
			from, to := "{tenant9}:old", "{tenant9}:new"
			fromKeys, toKeys := keysOf(from, from, client.ID()), keysOf(to, to, client.ID())
			l := limiterWithAllKeys(t, from)
			before := contents(t, fromKeys)
			for i, held := range before {
				require.NotEmpty(t, held, "%q has to exist for this test", fromKeys[i])
			}

			if copies(call) && version.Lacks(t, servers.CopyCommand) {
				require.ErrorIs(t, move(ctx, l, to), rratelimiter.ErrUnsupported)
				require.Equal(t, before, contents(t, fromKeys))
				require.Equal(t, make([]string, 5), contents(t, toKeys))
				return
			}
			require.NoError(t, move(ctx, l, to))
			require.Equal(t, before, contents(t, toKeys))
			moved := client.Limiter(to)
			free, err := moved.AvailablePermits(ctx)
			require.NoError(t, err)
			require.EqualValues(t, 16, free, "what was taken stays taken")
			if call == "Rename" || call == "RenameNX" {
				require.Equal(t, make([]string, 5), contents(t, fromKeys))
			} else {
				require.Equal(t, before, contents(t, fromKeys))
			}
			_, err = moved.Delete(ctx)
			require.NoError(t, err)
		})
	}
}

// A limiter that has the new name already: Rename and Copy with Replace put all of theirs in its
// place, RenameNX and Copy leave all ten keys alone.
func TestRename_NameTaken_ReplacesAllKeysOrNone(t *testing.T) {
	ctx := t.Context()
	for call, move := range moves {
		t.Run(call, func(t *testing.T) {
			from, to := "{tenant9}:old", "{tenant9}:new"
			fromKeys, toKeys := keysOf(from, from, client.ID()), keysOf(to, to, client.ID())
			l := limiterWithAllKeys(t, from)
			limiterWithAllKeys(t, to)
			// The one that is there has a key that the one that comes has not.
			require.NoError(t, redis.Do(ctx, redis.B().Del().Key(fromKeys[1]).Build()).Error())
			before, there := contents(t, fromKeys), contents(t, toKeys)

			err := move(ctx, l, to)
			switch call {
			case "Rename":
				require.NoError(t, err)
				require.Equal(t, before, contents(t, toKeys))
				require.Equal(t, make([]string, 5), contents(t, fromKeys))
			case "Copy with Replace":
				if version.Lacks(t, servers.CopyCommand) {
					require.ErrorIs(t, err, rratelimiter.ErrUnsupported)
					require.Equal(t, before, contents(t, fromKeys))
					require.Equal(t, there, contents(t, toKeys))
					return
				}
				require.NoError(t, err)
				require.Equal(t, before, contents(t, toKeys))
				require.Equal(t, before, contents(t, fromKeys))
			default:
				require.ErrorContains(t, err, "nothing was done")
				require.Equal(t, before, contents(t, fromKeys))
				require.Equal(t, there, contents(t, toKeys))
			}
		})
	}
}

// From slot to slot no script can go. The call says so, with both slots, and not one of the ten
// keys has changed.
func TestRename_OtherSlot_ReturnsErrCrossSlot(t *testing.T) {
	ctx := t.Context()
	for call, move := range moves {
		t.Run(call, func(t *testing.T) {
			from, to := "{tenant9}:here", "{tenant10}:there"
			keys := append(keysOf(from, from, client.ID()), keysOf(to, to, client.ID())...)
			l := limiterWithAllKeys(t, from)
			limiterWithAllKeys(t, to)
			before := contents(t, keys)

			err := move(ctx, l, to)
			require.ErrorIs(t, err, rratelimiter.ErrCrossSlot)
			slots := slotsOf(t, from, to)
			require.NotEqual(t, slots[0], slots[1])
			require.ErrorContains(t, err, fmt.Sprintf("%q is in slot %d", from, slots[0]))
			require.ErrorContains(t, err, fmt.Sprintf("%q in slot %d", to, slots[1]))
			require.Equal(t, before, contents(t, keys))

			// To where nothing is there is no way either, and nothing of it appears there.
			_, err = client.Limiter(to).Delete(ctx)
			require.NoError(t, err)
			before = contents(t, keys)
			require.ErrorIs(t, move(ctx, l, to), rratelimiter.ErrCrossSlot)
			require.Equal(t, before, contents(t, keys))
		})
	}
}

// A new name that is no good name on a cluster is refused before anything moves.
func TestRename_KeysInDifferentSlots_ReturnsErrCrossSlot(t *testing.T) {
	ctx := t.Context()
	l := limiterWithAllKeys(t, "{tenant9}:good")
	keys := keysOf("{tenant9}:good", "{tenant9}:good", client.ID())
	before := contents(t, keys)
	for call, move := range moves {
		for _, bad := range badNames {
			require.ErrorIs(t, move(ctx, l, bad.name), rratelimiter.ErrCrossSlot, "%s to %q", call, bad.name)
		}
	}
	require.Equal(t, before, contents(t, keys))
}
