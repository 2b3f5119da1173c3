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

	sent := scripts(t, func() {
		for _, permits := range []int64{0, -5} {
			_, err := ours.TryAcquire(t.Context(), permits)
			require.ErrorIs(t, err, rratelimiter.ErrInvalidPermits)
			require.ErrorIs(t, ours.Acquire(t.Context(), permits), rratelimiter.ErrInvalidPermits)
		}
	})
	require.Zero(t, sent, "nothing is sent")
	requireFree(t, ours, 10)
}

func TestTryAcquire_PermitsAboveMember_AreRejected(t *testing.T) {
	const rate, permits = 1 << 34, 1<<32 + 5
	theirs, ours := pair(t, perMinute(rate))

	take(t, theirs, permits)
	require.Equal(t, []int64{5}, counts(t, permitsKey(theirs.Name())), "the low 32 bits")
	age(t, permitsKey(theirs.Name()), time.Minute)
	requireFree(t, theirs, rate-permits+5)

	sent := scripts(t, func() {
		_, err := ours.TryAcquire(t.Context(), permits)
		require.ErrorIs(t, err, rratelimiter.ErrInvalidPermits)
		require.ErrorIs(t, ours.Acquire(t.Context(), permits), rratelimiter.ErrInvalidPermits)
	})
	require.Zero(t, sent, "nothing is sent")
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

	sent := scripts(t, func() {
		require.ErrorIs(t, here.Limiter(t.Name()).SetRate(t.Context(), perMinute(rate)), rratelimiter.ErrInvalidRate)
	})
	require.Zero(t, sent)
	require.False(t, exists(t, t.Name()))
	// A rate that a Java program has set:
	_, err := here.Limiter(theirs.Name()).TryAcquire(t.Context(), 1)
	var state *rratelimiter.StateError
	require.ErrorAs(t, err, &state)
	require.Equal(t, rratelimiter.StateError{Key: theirs.Name(), Field: "rate", Value: strconv.Itoa(rate)}, *state)
}
