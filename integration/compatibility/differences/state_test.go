package differences_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
)

func TestTryAcquire_CorruptState_ReturnsStateError(t *testing.T) {
	for name, spoil := range map[string]struct {
		command func(name string) []string
		theirs  string
		key     func(name string) string
		field   string
		value   string
	}{
		"a rate that is no number": {
			func(name string) []string { return []string{"HSET", name, "rate", "ten"} },
			"attempt to compare number with nil", func(name string) string { return name }, "rate", "ten",
		},
		"an interval that is no number": {
			func(name string) []string { return []string{"HSET", name, "interval", "1m"} },
			"attempt to perform arithmetic on local 'interval'", func(name string) string { return name }, "interval", "1m",
		},
		"a value that is no number": {
			func(name string) []string { return []string{"SET", valueKey(name), "many"} },
			"attempt to compare nil with number", valueKey, "", "many",
		},
		"a permits set of another type": {
			func(name string) []string { return []string{"SET", permitsKey(name), "x"} },
			"WRONGTYPE", permitsKey, "", "string",
		},
		"a permits set with a member too short": {
			func(name string) []string { return []string{"ZADD", permitsKey(name), "1", "abc"} },
			"data string too short", permitsKey, "member", "abc",
		},
	} {
		t.Run(name, func(t *testing.T) {
			theirs, ours := pair(t, perMinute(10))
			takeInTurn(t, theirs, permitsKey(theirs.Name()), 1)
			takeInTurn(t, ours, permitsKey(ours.Name()), 1)
			ask(t, spoil.command(theirs.Name())...)
			ask(t, spoil.command(ours.Name())...)

			_, err := theirs.TryAcquire(t.Context(), 1)
			var thrown *oracle.Error
			require.ErrorAs(t, err, &thrown)
			require.Contains(t, thrown.Message, spoil.theirs)

			_, err = ours.TryAcquire(t.Context(), 1)
			var state *rratelimiter.StateError
			require.ErrorAs(t, err, &state)
			require.Equal(t, rratelimiter.StateError{Key: spoil.key(ours.Name()), Field: spoil.field,
				Value: spoil.value}, *state)
		})
	}
}
