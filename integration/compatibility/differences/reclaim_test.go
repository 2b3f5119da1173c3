package differences_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// many is several times the number of grants that a call of this library reclaims.
const many = 2000

// onePage is the most grants that a call of this library reclaims.
const onePage = 256

// fill adds grants of one permit to a limiter: many expired ones and one other.
func fill(t *testing.T, name string) {
	t.Helper()
	add := redis.B().Zadd().Key(permitsKey(name)).ScoreMember()
	now := time.Now()
	for i := range many + 1 {
		at := now.Add(-2 * time.Minute)
		if i == many {
			at = now
		}
		member := []byte{16, 16: 0, 17: 1, 20: 0}
		for b := range 16 {
			member[1+b] = byte(rand.Uint32())
		}
		add = add.ScoreMember(float64(at.UnixMilli()), rueidis.BinaryString(member))
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

	require.Equal(t, int64(1), scripts(t, func() { take(t, ours, 1) }))
	require.Len(t, counts(t, permitsKey(ours.Name())), many+2-onePage, "one call reclaims a page")
	require.Equal(t, int64(onePage-1), value(t, ours.Name()))

	// A call that needs more permits than a page reclaims continues with further calls of the same
	// size.
	calls := scripts(t, func() { take(t, ours, many-1) })
	require.GreaterOrEqual(t, calls, int64(many/onePage))
	require.Equal(t, int64(0), value(t, ours.Name()))
	deny(t, ours, 1)
}

// If the newest grant has expired, the script reads no grant and unlinks the set.
func TestTryAcquire_AllGrantsExpired_UnlinksTheSet(t *testing.T) {
	ours := here.Limiter(t.Name())
	require.NoError(t, ours.SetRate(t.Context(), perMinute(many+1)))
	fill(t, ours.Name())
	ask(t, "ZREMRANGEBYRANK", permitsKey(ours.Name()), "-1", "-1")
	unlinked := server.Calls(t, "unlink")
	require.Equal(t, int64(1), scripts(t, func() { take(t, ours, many+1) }))
	require.Equal(t, unlinked+1, server.Calls(t, "unlink"))
	require.Equal(t, []int64{many + 1}, counts(t, permitsKey(ours.Name())))
}
