package differences_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

func TestTryAcquire_CorruptState_ReturnsStateError(t *testing.T) {
	for name, spoil := range map[string]struct {
		command func(name string) []string
		theirs  string
	}{
		"a rate that is no number": {
			func(name string) []string { return []string{"HSET", name, "rate", "ten"} },
			"attempt to compare number with nil",
		},
		"an interval that is no number": {
			func(name string) []string { return []string{"HSET", name, "interval", "1m"} },
			"attempt to perform arithmetic on local 'interval'",
		},
		"a value that is no number": {
			func(name string) []string { return []string{"SET", valueKey(name), "many"} },
			"attempt to compare nil with number",
		},
		"a permits set of another type": {
			func(name string) []string { return []string{"SET", permitsKey(name), "x"} },
			"WRONGTYPE",
		},
		"a permits set with a member too short": {
			func(name string) []string { return []string{"ZADD", permitsKey(name), "1", "abc"} },
			"data string too short",
		},
	} {
		t.Run(name, func(t *testing.T) {
			theirs, ours := pair(t, perMinute(10))
			takeInTurn(t, theirs, permitsKey(theirs.Name()), 1)
			takeInTurn(t, ours, permitsKey(ours.Name()), 1)
			ask(t, spoil.command(theirs.Name())...)
			ask(t, spoil.command(ours.Name())...)

			_, err := theirs.TryAcquire(t.Context(), 1)
			require.ErrorContains(t, err, spoil.theirs)
			_, err = ours.TryAcquire(t.Context(), 1)
			var state *rratelimiter.StateError
			require.ErrorAs(t, err, &state)
		})
	}
}

// many is several times the number of grants that a call of this library reclaims.
const many = 2000

// onePage is the most grants that a call of this library reclaims.
const onePage = 256

// fill adds grants of one permit to a limiter: many expired ones and one other.
func fill(t *testing.T, name string) {
	t.Helper()
	now := time.Now()
	member := func(i int) string { return fmt.Sprintf("\x10%016d\x01\x00\x00\x00", i) }
	add := redis.B().Zadd().Key(permitsKey(name)).ScoreMember().ScoreMember(float64(now.UnixMilli()), member(many))
	for i := range many {
		add = add.ScoreMember(float64(now.Add(-2*time.Minute).UnixMilli()), member(i))
	}
	require.NoError(t, redis.Do(t.Context(), add.Build()).Error())
	ask(t, "SET", valueKey(name), "0")
}

func TestTryAcquire_ManyExpiredGrants_ReclaimsOnePage(t *testing.T) {
	theirs, ours := pair(t, perMinute(many+1))
	fill(t, theirs.Name())
	fill(t, ours.Name())

	require.Equal(t, int64(1), scripts(t, func() { take(t, theirs, 1) }))
	require.Len(t, counts(t, permitsKey(theirs.Name())), 2, "one call reclaims all")

	client := rratelimiter.New(redis)
	require.Equal(t, int64(2), scripts(t, func() {
		take(t, client.Limiter(ours.Name()), 1)
		require.NoError(t, client.Flush(t.Context())) // the count of drift that follows its first call
	}))
	require.Len(t, counts(t, permitsKey(ours.Name())), many+2-onePage, "one call reclaims a page")
	require.Equal(t, int64(onePage-1), value(t, ours.Name()))

	// If the newest grant has expired, the script reads no grant.
	ask(t, "ZREMRANGEBYRANK", permitsKey(ours.Name()), "-2", "-1")
	require.Equal(t, int64(1), scripts(t, func() { take(t, client.Limiter(ours.Name()), many+1) }))
	require.Equal(t, []int64{many + 1}, counts(t, permitsKey(ours.Name())))
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
