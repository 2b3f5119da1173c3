// Package denials tests the cost of WithDenialCache on real servers.
package denials

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

const name = "limiter"

func denied(t *testing.T, limiter *rratelimiter.Limiter) bool {
	t.Helper()
	allowed, err := limiter.TryAcquire(t.Context(), 1)
	require.NoError(t, err)
	return !allowed
}

// A denial through ASK sends only its call.
func TestDenialCache_SlotMoves_SendsNoOtherCommands(t *testing.T) {
	cluster := servers.NewCluster(t)
	redis := servers.Connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs()})
	slot, err := cluster.SlotOf(t.Context(), name)
	require.NoError(t, err)
	from, err := cluster.MasterOf(t.Context(), slot)
	require.NoError(t, err)
	to := cluster.OtherMaster(t, from)

	const maxAge = 100 * time.Millisecond
	limiter := rratelimiter.New(redis, rratelimiter.WithDenialCache(maxAge)).Limiter(name)
	require.NoError(t, limiter.SetRate(t.Context(), rratelimiter.Rate{Permits: 10, Interval: time.Hour}))
	allowed, err := limiter.TryAcquire(t.Context(), 10)
	require.NoError(t, err)
	require.True(t, allowed)
	require.True(t, denied(t, limiter))
	number := strconv.Itoa(slot)
	to.Text(t, "CLUSTER", "SETSLOT", number, "IMPORTING", from.Text(t, "CLUSTER", "MYID"))
	from.Text(t, "CLUSTER", "SETSLOT", number, "MIGRATING", to.Text(t, "CLUSTER", "MYID"))
	from.Text(t, "MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), "", "0", "5000", "KEYS", name, "{"+name+"}:value",
		"{"+name+"}:permits")

	sent := func() (n int64) { // scripts, and the other commands of redirected calls
		for _, node := range cluster.Nodes() {
			n += node.Calls(t, "eval", "evalsha", "asking", "exec")
		}
		return n
	}
	before := sent()
	time.Sleep(maxAge)
	require.True(t, denied(t, limiter))
	// ASKING and the script, twice: the new node lacks the script at first.
	commands := sent() - before
	require.Positive(t, commands)
	require.LessOrEqual(t, commands, int64(4), "commands of a denial through ASK")
}
