package differences_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// Another client lowers the rate of a PerClient limiter. It cannot change this client's value.
func TestTryAcquire_ValueAboveRate_CountsGrants(t *testing.T) {
	high := perMinute(50)
	high.Type = rratelimiter.PerClient
	low := high
	low.Permits = 10
	theirs, ours := pair(t, high)
	take(t, theirs, 1)
	take(t, ours, 1)
	require.NoError(t, here.Limiter(theirs.Name()).SetRate(t.Context(), low))
	require.NoError(t, java.Limiter(ours.Name()).SetRate(t.Context(), inJava(low)))

	for range 4 {
		take(t, theirs, 10)
	}
	require.Equal(t, int64(9), number(t, "GET", clientValueKey(theirs.Name(), java.ID())),
		"40 of the 49 at once, at a rate of 10")

	take(t, ours, 9) // beside the permit that was taken before
	deny(t, ours, 1)
}

// Permits were released, and the grants that Redisson keeps in the set return as well.
func TestTryAcquire_ReturnedPermitsAboveRate_StayFree(t *testing.T) {
	theirs, ours := java.Limiter(t.Name()+" in Java"), here.Limiter(t.Name()+" here")
	for _, name := range []string{theirs.Name(), ours.Name()} {
		l := java.Limiter(name)
		require.NoError(t, l.SetRate(t.Context(), inJava(perMinute(10))))
		takeInTurn(t, l, permitsKey(name), 4, 4, 2)
		require.NoError(t, l.Release(t.Context(), 8))
		require.Equal(t, int64(8), value(t, name))
		ageOldest(t, permitsKey(name), 1, time.Minute)
	}

	deny(t, theirs, 8)
	require.Equal(t, int64(4), value(t, theirs.Name()),
		"the rate less the 6 in the window: half of the released permits are lost")

	take(t, ours, 8)
	require.Equal(t, int64(0), value(t, ours.Name()), "all released permits, besides the 2 others")
	require.ElementsMatch(t, []int64{2, 8}, counts(t, permitsKey(ours.Name())))
}

func TestTryAcquire_ValueLost_CountsGrants(t *testing.T) {
	theirs, ours := pair(t, perMinute(10))
	take(t, theirs, 7)
	take(t, ours, 7)
	require.Equal(t, int64(2), number(t, "DEL", valueKey(theirs.Name()), valueKey(ours.Name())))

	take(t, theirs, 10)
	require.ElementsMatch(t, []int64{7, 10}, counts(t, permitsKey(theirs.Name())), "17 in a window, at a rate of 10")

	deny(t, ours, 4)
	take(t, ours, 3)
	deny(t, ours, 1)
}

func TestTryAcquire_GrantsLost_FreesAllPermits(t *testing.T) {
	theirs, ours := pair(t, perMinute(10))
	take(t, theirs, 7)
	take(t, ours, 7)
	require.Equal(t, int64(2), number(t, "DEL", permitsKey(theirs.Name()), permitsKey(ours.Name())))

	take(t, theirs, 3)
	age(t, permitsKey(theirs.Name()), time.Minute)
	requireFree(t, theirs, 3)
	take(t, theirs, 3)
	require.Equal(t, int64(1), number(t, "DEL", permitsKey(theirs.Name())))
	for range 3 {
		_, err := theirs.TryAcquire(t.Context(), 1)
		require.ErrorContains(t, err, "attempt to perform arithmetic on a nil value")
	}

	take(t, ours, 10)
	require.Equal(t, []int64{10}, counts(t, permitsKey(ours.Name())))
	require.Equal(t, int64(1), number(t, "DEL", permitsKey(ours.Name())))
	take(t, ours, 1)
}
