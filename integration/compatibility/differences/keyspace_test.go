package differences_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// takenOf returns the names of two limiters with 4 of 10 permits taken.
func takenOf(t *testing.T) (theirs, ours string) {
	t.Helper()
	a, b := pair(t, perMinute(10))
	take(t, a, 4)
	take(t, b, 4)
	return a.Name(), b.Name()
}

func TestRename_SameLimiter_KeepsItsName(t *testing.T) {
	theirs, ours := takenOf(t)
	name, err := java.Limiter(theirs).NameAfter(t.Context(), "rename", theirs+"2")
	require.NoError(t, err)
	require.Equal(t, theirs+"2", name)
	name, err = java.Limiter(theirs+"2").NameAfter(t.Context(), "renamenx", theirs+"3")
	require.NoError(t, err)
	require.Equal(t, theirs+"3", name)

	l := here.Limiter(ours)
	require.NoError(t, l.Rename(t.Context(), ours+"2"))
	require.Equal(t, ours, l.Name())
	_, err = l.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, rratelimiter.ErrNotInitialized)
	requireFree(t, here.Limiter(ours+"2"), 6)
	l = here.Limiter(ours + "2")
	requireTrue(t)(l.RenameNX(t.Context(), ours+"3"))
	require.Equal(t, ours+"2", l.Name())
}

func TestSizeInMemory_TakenPermits_CountsAllKeys(t *testing.T) {
	theirs, ours := takenOf(t)
	usage := func(keys ...string) (sum int64) {
		for _, key := range keys {
			sum += number(t, "MEMORY", "USAGE", key)
		}
		return sum
	}
	size, err := java.Limiter(theirs).SizeInMemory(t.Context())
	require.NoError(t, err)
	require.Equal(t, usage(theirs), size)

	size, err = here.Limiter(ours).SizeInMemory(t.Context())
	require.NoError(t, err)
	require.Equal(t, usage(ours, valueKey(ours), permitsKey(ours)), size)
}
