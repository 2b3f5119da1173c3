package differences_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAvailablePermits_AnyState_OnlyReads(t *testing.T) {
	theirs, ours := pair(t, perMinute(10))
	for _, name := range []string{theirs.Name(), ours.Name()} {
		ask(t, "PEXPIRE", name, "3600000")
	}

	requireFree(t, theirs, 10)
	require.Equal(t, int64(10), value(t, theirs.Name()))
	require.Equal(t, int64(-1), number(t, "PTTL", valueKey(theirs.Name())), "a value that outlives its limiter")

	requireFree(t, ours, 10)
	require.False(t, exists(t, valueKey(ours.Name())))
	take(t, ours, 3)
	age(t, permitsKey(ours.Name()), time.Minute)
	requireFree(t, ours, 10)
	require.Equal(t, int64(7), value(t, ours.Name()))
	require.Equal(t, []int64{3}, counts(t, permitsKey(ours.Name())))
}

// The permits that Redisson released and those that expire add up to more than the rate.
func TestAvailablePermits_AfterRelease_IsAtMostTheRate(t *testing.T) {
	theirs := java.Limiter(t.Name())
	require.NoError(t, theirs.SetRate(t.Context(), inJava(perMinute(10))))
	take(t, theirs, 10)
	require.NoError(t, theirs.Release(t.Context(), 10))
	age(t, permitsKey(t.Name()), time.Minute)

	requireFree(t, here.Limiter(t.Name()), 10)
	requireFree(t, theirs, 20)
	requireFree(t, here.Limiter(t.Name()), 10)
}
