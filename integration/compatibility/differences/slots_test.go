package differences_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

func TestTryAcquire_KeysInDifferentSlots_SendsNothing(t *testing.T) {
	cluster := servers.NewCluster(t)
	redis := servers.Connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs()})
	client := rratelimiter.New(redis)
	redisson := oracle.Start(t, redissonVersion, oracle.Cluster(cluster.Addrs()...))

	asked := func() (scripts int64) {
		for _, node := range cluster.Nodes() {
			info, err := node.Do(t.Context(), "INFO", "commandstats")
			require.NoError(t, err)
			stats, err := info.ToString()
			require.NoError(t, err)
			scripts += calls(t, stats, "eval") + calls(t, stats, "evalsha")
		}
		return scripts
	}
	for _, name := range []string{"a}b", "a{b", "a{}b"} {
		theirs := redisson.Limiter(name)
		require.ErrorContains(t, theirs.SetRate(t.Context(), inJava(perMinute(10))), "CROSSSLOT", name)
		_, err := theirs.TryAcquire(t.Context(), 1)
		require.ErrorContains(t, err, "CROSSSLOT", name)

		before := asked()
		ours := client.Limiter(name)
		require.ErrorIs(t, ours.SetRate(t.Context(), perMinute(10)), rratelimiter.ErrCrossSlot, name)
		_, err = ours.TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, rratelimiter.ErrCrossSlot, name)
		require.Equal(t, before, asked(), "nothing is sent")
	}
}
