package differences_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

func TestTryAcquire_ZeroOrNegativePermits_AreRejected(t *testing.T) {
	theirs, ours := pair(t, perMinute(10))

	take(t, theirs, 0)
	require.Equal(t, []int64{0}, counts(t, permitsKey(theirs.Name())), "an empty grant")
	take(t, theirs, -5)
	require.Equal(t, int64(15), value(t, theirs.Name()), "more than the rate of 10 is free")

	for _, permits := range []int64{0, -5} {
		_, err := ours.TryAcquire(t.Context(), permits)
		require.ErrorIs(t, err, rratelimiter.ErrInvalidPermits)
	}
	requireFree(t, ours, 10)
}

func TestTryAcquire_PermitsAboveMember_AreRejected(t *testing.T) {
	const rate, permits = 1 << 34, 1<<32 + 5
	theirs, ours := pair(t, perMinute(rate))

	take(t, theirs, permits)
	require.Equal(t, []int64{5}, counts(t, permitsKey(theirs.Name())), "the low 32 bits")
	age(t, permitsKey(theirs.Name()), time.Minute)
	requireFree(t, theirs, rate-permits+5)

	_, err := ours.TryAcquire(t.Context(), permits)
	require.ErrorIs(t, err, rratelimiter.ErrInvalidPermits)
	take(t, ours, math.MaxUint32)
	require.Equal(t, []int64{math.MaxUint32}, counts(t, permitsKey(ours.Name())))
	requireFree(t, ours, rate-math.MaxUint32)
	age(t, permitsKey(ours.Name()), time.Minute)
	requireFree(t, ours, rate)
}

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
