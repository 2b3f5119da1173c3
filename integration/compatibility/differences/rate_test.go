package differences_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// The rate changes from 10 to 4 while 10 permits are taken, 3 of them before the others.
func TestUpdateRate_TakenAboveNewRate_KeepsTheExcess(t *testing.T) {
	theirs, ours := pair(t, perMinute(10))
	takeInTurn(t, theirs, permitsKey(theirs.Name()), 3, 7)
	takeInTurn(t, ours, permitsKey(ours.Name()), 3, 7)

	requireTrue(t)(theirs.UpdateRate(t.Context(), inJava(perMinute(4)), true))
	require.Equal(t, int64(0), value(t, theirs.Name()))
	ageOldest(t, permitsKey(theirs.Name()), 1, time.Minute)
	take(t, theirs, 3)
	require.Equal(t, []int64{7, 3}, counts(t, permitsKey(theirs.Name())), "3 granted on top of 7, at a rate of 4")

	requireTrue(t)(ours.UpdateRate(t.Context(), perMinute(4), rratelimiter.KeepState()))
	require.Equal(t, int64(-6), value(t, ours.Name()))
	requireFree(t, ours, 0)
	ageOldest(t, permitsKey(ours.Name()), 1, time.Minute)
	deny(t, ours, 1)
	requireFree(t, ours, 0)
	age(t, permitsKey(ours.Name()), time.Minute)
	requireFree(t, ours, 4)
}

// The limiter has no keepAliveTime, as releases before 3.38 make it.
func TestTrySetRate_LimiterHasRate_ChangesNothing(t *testing.T) {
	lasting := perMinute(5)
	lasting.KeepAlive = time.Hour
	theirs, ours := pair(t, perMinute(10))
	for _, name := range []string{theirs.Name(), ours.Name()} {
		require.Equal(t, int64(1), number(t, "HDEL", name, "keepAliveTime"))
	}

	set, err := theirs.TrySetRate(t.Context(), inJava(lasting))
	require.NoError(t, err)
	require.False(t, set)
	require.Equal(t, "3600000", text(t, "HGET", theirs.Name(), "keepAliveTime"))
	take(t, theirs, 1)
	require.Positive(t, number(t, "PTTL", theirs.Name()), "the limiter starts to expire")

	set, err = ours.TrySetRate(t.Context(), lasting)
	require.NoError(t, err)
	require.False(t, set)
	require.Zero(t, number(t, "HEXISTS", ours.Name(), "keepAliveTime"))
	take(t, ours, 1)
	require.Equal(t, int64(-1), number(t, "PTTL", ours.Name()))
}

func TestSetRate_KeepAliveRemoved_RemovesTheExpiry(t *testing.T) {
	lasting := perMinute(10)
	lasting.KeepAlive = time.Hour
	theirs, ours := pair(t, lasting)
	take(t, theirs, 1)
	take(t, ours, 1)

	require.NoError(t, theirs.SetRate(t.Context(), inJava(perMinute(10))))
	require.Equal(t, "0", text(t, "HGET", theirs.Name(), "keepAliveTime"))
	require.Positive(t, number(t, "PTTL", theirs.Name()), "the limiter still expires")

	require.NoError(t, ours.SetRate(t.Context(), perMinute(10), rratelimiter.KeepState()))
	for _, key := range []string{ours.Name(), valueKey(ours.Name()), permitsKey(ours.Name())} {
		require.Equal(t, int64(-1), number(t, "PTTL", key), key)
	}
}

func TestSetRate_TypeChanged_RemovesState(t *testing.T) {
	perClient := perMinute(10)
	perClient.Type = rratelimiter.PerClient
	theirs, ours := pair(t, perMinute(10))
	take(t, theirs, 4)
	take(t, ours, 4)

	require.NoError(t, theirs.SetRate(t.Context(), inJava(perClient)))
	require.Equal(t, int64(6), value(t, theirs.Name()), "the Overall state stays")
	require.Equal(t, []int64{4}, counts(t, permitsKey(theirs.Name())))

	require.NoError(t, ours.SetRate(t.Context(), perClient))
	require.False(t, exists(t, valueKey(ours.Name())))
	require.False(t, exists(t, permitsKey(ours.Name())))
	take(t, ours, 4)
	requireTrue(t)(ours.UpdateRate(t.Context(), perMinute(10)))
	require.False(t, exists(t, clientValueKey(ours.Name(), here.ID())))
	require.False(t, exists(t, clientPermitsKey(ours.Name(), here.ID())))
}
