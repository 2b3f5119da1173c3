package differences_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// takenOf returns the names of two limiters with 4 of 10 permits taken.
func takenOf(t *testing.T) (theirs, ours string) {
	t.Helper()
	a, b := pair(t, perMinute(10))
	take(t, a, 4)
	take(t, b, 4)
	return a.Name(), b.Name()
}

func TestRename_TakenPermits_MovesAllKeys(t *testing.T) {
	for call, rename := range map[string]struct{ theirs, ours func(from, to string) error }{
		"rename": {
			func(from, to string) error { return java.Limiter(from).Rename(t.Context(), to) },
			func(from, to string) error { return here.Limiter(from).Rename(t.Context(), to) },
		},
		"renamenx": {
			func(from, to string) error { _, err := java.Limiter(from).RenameNX(t.Context(), to); return err },
			func(from, to string) error { _, err := here.Limiter(from).RenameNX(t.Context(), to); return err },
		},
	} {
		t.Run(call, func(t *testing.T) {
			theirs, ours := takenOf(t)
			require.NoError(t, rename.theirs(theirs, theirs+"2"))
			requireFree(t, java.Limiter(theirs+"2"), 10)
			require.Equal(t, int64(6), value(t, theirs), "left behind")
			require.Equal(t, []int64{4}, counts(t, permitsKey(theirs)))

			require.NoError(t, rename.ours(ours, ours+"2"))
			requireFree(t, here.Limiter(ours+"2"), 6)
			require.Zero(t, number(t, "EXISTS", ours, valueKey(ours), permitsKey(ours)))
		})
	}
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

func TestCopy_TakenPermits_CopiesAllKeys(t *testing.T) {
	theirs, ours := takenOf(t)
	if version.Lacks(t, servers.CopyCommand) {
		requireNoCopy(t, theirs, ours)
		return
	}
	requireTrue(t)(java.Limiter(theirs).Copy(t.Context(), theirs+"2"))
	requireFree(t, java.Limiter(theirs+"2"), 10)

	requireTrue(t)(here.Limiter(ours).Copy(t.Context(), ours+"2"))
	requireFree(t, here.Limiter(ours+"2"), 6)
	requireFree(t, here.Limiter(ours), 6)
}

func TestCopy_MissingLimiter_ReturnsErrNotInitialized(t *testing.T) {
	copied, err := java.Limiter(t.Name()).Copy(t.Context(), t.Name()+"2")
	if version.Lacks(t, servers.CopyCommand) {
		require.ErrorContains(t, err, "unknown command")
	} else {
		require.NoError(t, err)
		require.False(t, copied)
	}

	copied, err = here.Limiter(t.Name()).Copy(t.Context(), t.Name()+"2")
	require.ErrorIs(t, err, rratelimiter.ErrNotInitialized)
	require.False(t, copied)
}

// A limiter is copied over another one, whose taken permits must not count against the copy.
func TestCopy_Replace_RemovesOldState(t *testing.T) {
	theirs, ours := takenOf(t)
	for _, name := range []string{theirs + "2", ours + "2"} {
		old := java.Limiter(name)
		require.NoError(t, old.SetRate(t.Context(), inJava(perMinute(20))))
		take(t, old, 15)
	}
	if version.Lacks(t, servers.CopyCommand) {
		requireNoCopy(t, theirs, ours)
		require.Equal(t, []int64{15}, counts(t, permitsKey(ours+"2")))
		return
	}

	requireTrue(t)(java.Limiter(theirs).CopyAndReplace(t.Context(), theirs+"2"))
	require.Equal(t, []int64{15}, counts(t, permitsKey(theirs+"2")), "the old limiter's grants under the new rate")

	requireTrue(t)(here.Limiter(ours).Copy(t.Context(), ours+"2", rratelimiter.Replace()))
	require.Equal(t, []int64{4}, counts(t, permitsKey(ours+"2")))
	requireFree(t, here.Limiter(ours+"2"), 6)
}

// requireNoCopy requires that both libraries reject a copy on a server without COPY.
func requireNoCopy(t *testing.T, theirs, ours string) {
	t.Helper()
	_, err := java.Limiter(theirs).CopyAndReplace(t.Context(), theirs+"2")
	require.ErrorContains(t, err, "unknown command")
	_, err = here.Limiter(ours).Copy(t.Context(), ours+"2", rratelimiter.Replace())
	require.ErrorIs(t, err, rratelimiter.ErrUnsupported)
	requireFree(t, here.Limiter(ours), 6)
}

func TestUnlink_TakenPermits_RemovesAllKeys(t *testing.T) {
	theirs, ours := takenOf(t)
	requireTrue(t)(java.Limiter(theirs).Unlink(t.Context()))
	require.Equal(t, int64(2), number(t, "EXISTS", theirs, valueKey(theirs), permitsKey(theirs)), "the state stays")

	requireTrue(t)(here.Limiter(ours).Unlink(t.Context()))
	require.Zero(t, number(t, "EXISTS", ours, valueKey(ours), permitsKey(ours)))
}

func TestTouch_StateAlone_TouchesAllKeys(t *testing.T) {
	theirs, ours := takenOf(t)
	for _, name := range []string{theirs, ours} {
		ask(t, "DEL", name)
	}
	touched, err := java.Limiter(theirs).Touch(t.Context())
	require.NoError(t, err)
	require.False(t, touched, "the configuration alone")

	requireTrue(t, "the state counts")(here.Limiter(ours).Touch(t.Context()))
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

// A limiter expired and was set again. Its state still has the old time to live: here 30 s of an
// interval of a minute.
func TestTryAcquire_StateWithTTL_RemovesTheTTL(t *testing.T) {
	theirs, ours := pair(t, perMinute(10))
	take(t, theirs, 6)
	take(t, ours, 6)
	for _, name := range []string{theirs.Name(), ours.Name()} {
		ask(t, "PEXPIRE", valueKey(name), "30000")
		ask(t, "PEXPIRE", permitsKey(name), "30000")
	}

	take(t, theirs, 4)
	require.Positive(t, number(t, "PTTL", permitsKey(theirs.Name())), "it expires before its grants do")
	ask(t, "DEL", valueKey(theirs.Name()), permitsKey(theirs.Name())) // as the server does at the end of the TTL
	take(t, theirs, 10)

	take(t, ours, 4)
	require.Equal(t, int64(-1), number(t, "PTTL", valueKey(ours.Name())))
	require.Equal(t, int64(-1), number(t, "PTTL", permitsKey(ours.Name())))
	deny(t, ours, 1)
	ask(t, "PEXPIRE", permitsKey(ours.Name()), "30000")
	deny(t, ours, 1)
	require.Equal(t, int64(-1), number(t, "PTTL", permitsKey(ours.Name())), "a denied call, too")
}

// The configuration expires in an hour. The call applies only to keys without an expiry: the state,
// which gets a second.
func TestExpire_Condition_AppliesToAllKeys(t *testing.T) {
	theirs, ours := pair(t, perMinute(10))
	take(t, theirs, 6)
	take(t, ours, 6)
	for _, name := range []string{theirs.Name(), ours.Name()} {
		ask(t, "PEXPIRE", name, "3600000")
	}

	if version.Lacks(t, servers.ExpireCondition) {
		_, err := theirs.ExpireIfNotSet(t.Context(), time.Second)
		require.ErrorContains(t, err, "Wrong number of args")
		_, err = ours.Expire(t.Context(), time.Second, rratelimiter.IfNotSet)
		require.ErrorIs(t, err, rratelimiter.ErrUnsupported)
		require.Equal(t, int64(-1), number(t, "PTTL", permitsKey(ours.Name())))
		requireFree(t, ours, 4)
		return
	}

	requireTrue(t)(theirs.ExpireIfNotSet(t.Context(), time.Second))
	require.Greater(t, number(t, "PTTL", theirs.Name()), int64(3_000_000))
	require.LessOrEqual(t, number(t, "PTTL", permitsKey(theirs.Name())), int64(1000),
		"the grants expire long before the configuration")

	requireTrue(t)(ours.Expire(t.Context(), time.Second, rratelimiter.IfNotSet))
	for _, key := range []string{valueKey(ours.Name()), permitsKey(ours.Name())} {
		require.InDelta(t, number(t, "PTTL", ours.Name()), number(t, "PTTL", key), 1000, key)
	}
}

func TestExpire_PerClientState_LivesLonger(t *testing.T) {
	rate := rratelimiter.Rate{Type: rratelimiter.PerClient, Permits: 10, Interval: time.Minute, KeepAlive: time.Hour}
	theirs, ours := pair(t, rate)
	take(t, theirs, 1)
	take(t, ours, 1)
	expiresIn := func(key string, want time.Duration) {
		t.Helper()
		require.InDelta(t, want.Milliseconds(), number(t, "PTTL", key), 10_000, key)
	}

	expiresIn(theirs.Name(), time.Hour)
	expiresIn(clientValueKey(theirs.Name(), java.ID()), time.Hour)
	expiresIn(clientPermitsKey(theirs.Name(), java.ID()), time.Hour)

	expiresIn(ours.Name(), time.Hour)
	expiresIn(clientValueKey(ours.Name(), here.ID()), time.Hour+time.Minute+24*time.Hour)
	expiresIn(clientPermitsKey(ours.Name(), here.ID()), time.Hour+time.Minute+24*time.Hour)

	_, err := ours.Expire(t.Context(), 2*time.Hour)
	require.NoError(t, err)
	expiresIn(ours.Name(), 2*time.Hour)
	expiresIn(clientPermitsKey(ours.Name(), here.ID()), 2*time.Hour+time.Minute+24*time.Hour)
}
