package differences_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Ten permits are taken and released, and then their window ends.
func TestRelease_WindowOver_RateIsFree(t *testing.T) {
	theirs, ours := pair(t, perMinute(10))

	take(t, theirs, 10)
	require.NoError(t, theirs.Release(t.Context(), 10))
	require.Equal(t, []int64{10}, counts(t, permitsKey(theirs.Name())), "the grant stays")
	age(t, permitsKey(theirs.Name()), time.Minute)
	requireFree(t, theirs, 20)
	take(t, theirs, 10)
	take(t, theirs, 10)
	require.Equal(t, []int64{10, 10}, counts(t, permitsKey(theirs.Name())), "20 at once, at a rate of 10")

	take(t, ours, 10)
	require.NoError(t, ours.Release(t.Context(), 10))
	require.False(t, exists(t, permitsKey(ours.Name())), "the grant goes")
	requireFree(t, ours, 10)
	take(t, ours, 10)
	deny(t, ours, 1)
}

// The permits are taken again before the window ends. No call reads the free permits.
func TestRelease_PermitsTakenAgain_WindowHoldsTheRate(t *testing.T) {
	theirs, ours := pair(t, perMinute(10))

	takeInTurn(t, theirs, permitsKey(theirs.Name()), 10)
	require.NoError(t, theirs.Release(t.Context(), 10))
	take(t, theirs, 10)
	ageOldest(t, permitsKey(theirs.Name()), 1, time.Minute)
	take(t, theirs, 10)
	require.Equal(t, []int64{10, 10}, counts(t, permitsKey(theirs.Name())), "without a release between the two")

	takeInTurn(t, ours, permitsKey(ours.Name()), 2, 4, 4)
	granted := scores(t, permitsKey(ours.Name()))
	require.NoError(t, ours.Release(t.Context(), 5))
	require.Equal(t, []int64{1, 4}, counts(t, permitsKey(ours.Name())),
		"the oldest grant goes, the next shrinks where it stands")
	require.Equal(t, granted[1:], scores(t, permitsKey(ours.Name())))
	take(t, ours, 5)
	ageOldest(t, permitsKey(ours.Name()), 1, time.Minute)
	take(t, ours, 1)
	deny(t, ours, 1)
}
