package differences_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
)

// many is more grants than one call of ours gives back, by several times.
const many = 2000

// onePage is the most grants that one call of ours gives back.
const onePage = 256

// fill puts one-permit grants into a limiter, many that have left the window and one that has not.
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

func TestManyGrantsExpireAtOnce(t *testing.T) {
	theirs, ours := pair(t, perMinute(many+1))
	fill(t, theirs.Name())
	fill(t, ours.Name())

	require.Equal(t, int64(1), scripts(t, func() { take(t, theirs, 1) }))
	require.Len(t, counts(t, permitsKey(theirs.Name())), 2, "all are given back in the one call")

	require.Equal(t, int64(1), scripts(t, func() { take(t, ours, 1) }))
	require.Len(t, counts(t, permitsKey(ours.Name())), many+2-onePage, "a page of them in a call")
	require.Equal(t, int64(onePage-1), value(t, ours.Name()))

	// A call that needs more permits than a page gives back goes on in further calls, each as small.
	calls := scripts(t, func() { take(t, ours, many-1) })
	require.GreaterOrEqual(t, calls, int64(many/onePage))
	require.Equal(t, int64(0), value(t, ours.Name()))
	deny(t, ours, 1)
}

// Where even the newest grant has left the window, nothing is read at all: the set is unlinked.
func TestAllGrantsExpireAtOnce(t *testing.T) {
	ours := here.Limiter(t.Name())
	require.NoError(t, ours.SetRate(t.Context(), perMinute(many+1)))
	fill(t, ours.Name())
	ask(t, "ZREMRANGEBYRANK", permitsKey(ours.Name()), "-1", "-1")
	unlinked := called(t, "unlink")
	require.Equal(t, int64(1), scripts(t, func() { take(t, ours, many+1) }))
	require.Equal(t, unlinked+1, called(t, "unlink"))
	require.Equal(t, []int64{many + 1}, counts(t, permitsKey(ours.Name())))
}

// What a client that died took of a PerClient limiter: of one that can expire it goes by itself.
func TestKeysOfDeadClients(t *testing.T) {
	rate := perMinute(10)
	rate.Type = rratelimiter.PerClient
	rate.KeepAlive = time.Hour
	theirs, ours := pair(t, rate)
	take(t, theirs, 1)
	take(t, ours, 1)
	const slack = 24*time.Hour + time.Minute
	near := func(want time.Duration, key string) {
		t.Helper()
		left := time.Duration(number(t, "PTTL", key)) * time.Millisecond
		require.LessOrEqual(t, left, want, key)
		require.Greater(t, left, want-time.Minute/2, key)
	}
	for _, key := range []string{clientValueKey(theirs.Name(), java.ID()), clientPermitsKey(theirs.Name(), java.ID())} {
		near(time.Hour, key)
	}
	for _, key := range []string{clientValueKey(ours.Name(), here.ID()), clientPermitsKey(ours.Name(), here.ID())} {
		near(time.Hour+slack, key)
	}

	// Another client prolongs the limiter and lengthens its interval: what was taken before counts, here.
	for _, l := range []struct{ name, value, permits string }{
		{theirs.Name(), clientValueKey(theirs.Name(), java.ID()), clientPermitsKey(theirs.Name(), java.ID())},
		{ours.Name(), clientValueKey(ours.Name(), here.ID()), clientPermitsKey(ours.Name(), here.ID())},
	} {
		ask(t, "HSET", l.name, "interval", "7200000", "keepAliveTime", "0")
		ask(t, "PERSIST", l.name)
		for _, key := range []string{l.value, l.permits} {
			if left := number(t, "PTTL", key) - time.Hour.Milliseconds() - 1000; left > 0 {
				ask(t, "PEXPIRE", key, strconv.FormatInt(left, 10))
			} else {
				ask(t, "DEL", key)
			}
		}
	}
	take(t, theirs, 10)
	deny(t, ours, 10)

	for name, key := range map[string]string{"lasting": clientPermitsKey(t.Name()+" lasting", here.ID())} {
		rate.KeepAlive = 0
		l := here.Limiter(t.Name() + " " + name)
		require.NoError(t, l.SetRate(t.Context(), rate))
		take(t, l, 1)
		require.Equal(t, int64(-1), number(t, "PTTL", key), "for ever, as the limiter")
	}

	overall := here.Limiter(t.Name() + " overall")
	require.NoError(t, overall.SetRate(t.Context(), perMinute(10)))
	take(t, overall, 1)
	require.Equal(t, int64(-1), number(t, "PTTL", valueKey(overall.Name())), "Java would not extend an expiry of the shared pair")
	require.Equal(t, int64(-1), number(t, "PTTL", permitsKey(overall.Name())))
}
