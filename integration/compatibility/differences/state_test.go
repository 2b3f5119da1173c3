package differences_test

import (
	"fmt"
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
