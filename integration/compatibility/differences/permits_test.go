package differences_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

func TestSetRate_RateAboveLuaNumber_IsRejected(t *testing.T) {
	const rate = 1<<53 + 1
	theirs := java.Limiter(t.Name() + " in Java")
	require.NoError(t, theirs.SetRate(t.Context(), inJava(perMinute(rate))))
	take(t, theirs, 1)
	age(t, permitsKey(theirs.Name()), time.Minute)
	requireFree(t, theirs, rate-1)

	require.ErrorIs(t, here.Limiter(t.Name()).SetRate(t.Context(), perMinute(rate)), rratelimiter.ErrInvalidRate)
	// A rate that a Java program has set:
	_, err := here.Limiter(theirs.Name()).TryAcquire(t.Context(), 1)
	var state *rratelimiter.StateError
	require.ErrorAs(t, err, &state)
	require.Equal(t, rratelimiter.StateError{Key: theirs.Name(), Field: "rate", Value: strconv.Itoa(rate)}, *state)
}

// Redisson has no such call. Except for the random bytes of a member, the state is that of its
// tryAcquire for the granted permits, and Redisson reads it.
func TestTakeUpTo_AnyState_IsThatOfTryAcquire(t *testing.T) {
	rate := perMinute(10)
	rate.KeepAlive = time.Hour
	for name, test := range map[string]struct {
		taken, upTo, granted int64
	}{
		"nothing is taken":   {0, 4, 4},
		"a part is free":     {7, 5, 3},
		"all is free":        {0, 10, 10},
		"more than the rate": {0, 11, 10},
		"more than are free": {1, 1<<32 - 1, 9},
	} {
		t.Run(name, func(t *testing.T) {
			theirs, ours := pair(t, rate)
			if test.taken > 0 {
				takeInTurn(t, theirs, permitsKey(theirs.Name()), test.taken)
				takeInTurn(t, ours, permitsKey(ours.Name()), test.taken)
			}
			take(t, theirs, test.granted)
			granted, decision, err := ours.TakeUpTo(t.Context(), test.upTo)
			require.NoError(t, err)
			require.Equal(t, test.granted, granted)
			require.Equal(t, 10-test.taken-granted, decision.Remaining)

			require.Equal(t, text(t, "GET", valueKey(theirs.Name())), text(t, "GET", valueKey(ours.Name())))
			require.Equal(t, counts(t, permitsKey(theirs.Name())), counts(t, permitsKey(ours.Name())))
			here, there := grants(t, permitsKey(ours.Name())), grants(t, permitsKey(theirs.Name()))
			for i := range here {
				require.Len(t, here[i].Member, 21)
				require.Equal(t, there[i].Member[:1]+there[i].Member[17:], here[i].Member[:1]+here[i].Member[17:])
			}
			for _, key := range []string{ours.Name(), valueKey(ours.Name()), permitsKey(ours.Name())} {
				require.InDelta(t, time.Hour.Milliseconds(), number(t, "PTTL", key), 5000, key)
			}

			other := java.Limiter(ours.Name())
			requireFree(t, other, decision.Remaining)
			if decision.Remaining > 0 {
				take(t, other, decision.Remaining)
			}
			deny(t, other, 1)
			age(t, permitsKey(ours.Name()), time.Minute)
			take(t, other, 10)
			deny(t, ours, 1)
		})
	}
}
