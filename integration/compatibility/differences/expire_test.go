package differences_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

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
		_, err := theirs.ExpireIf(t.Context(), oracle.ExpireIfNotSet, time.Second)
		require.ErrorContains(t, err, "Wrong number of args")
		_, err = ours.Expire(t.Context(), time.Second, rratelimiter.IfNotSet)
		require.ErrorIs(t, err, rratelimiter.ErrUnsupported)
		require.Equal(t, int64(-1), number(t, "PTTL", permitsKey(ours.Name())))
		requireFree(t, ours, 4)
		return
	}

	requireTrue(t)(theirs.ExpireIf(t.Context(), oracle.ExpireIfNotSet, time.Second))
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
