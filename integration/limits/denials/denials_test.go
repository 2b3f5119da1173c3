// Package denials tests WithDenialCache on real servers: when a denial comes from memory, and its
// cost.
package denials

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

const name = "limiter"

// exhausted returns a limiter whose permits are taken for an hour. The Client has cached a denial.
func exhausted(t *testing.T, redis rueidis.Client, maxAge time.Duration,
	rateType rratelimiter.RateType) *rratelimiter.Limiter {
	t.Helper()
	limiter := rratelimiter.New(redis, rratelimiter.WithDenialCache(maxAge)).Limiter(name)
	require.NoError(t, limiter.SetRate(t.Context(),
		rratelimiter.Rate{Type: rateType, Permits: 10, Interval: time.Hour}))
	allowed, err := limiter.TryAcquire(t.Context(), 10)
	require.NoError(t, err)
	require.True(t, allowed)
	require.True(t, denied(t, limiter))
	return limiter
}

func denied(t *testing.T, limiter *rratelimiter.Limiter) bool {
	t.Helper()
	allowed, err := limiter.TryAcquire(t.Context(), 1)
	require.NoError(t, err)
	return !allowed
}

// A denial through ASK sends only its call, and a denial from memory sends nothing.
func TestDenialCache_SlotMoves_SendsNoOtherCommands(t *testing.T) {
	cluster := servers.NewCluster(t)
	redis := servers.Connect(t, rueidis.ClientOption{InitAddress: cluster.Addrs()})
	slot, err := cluster.SlotOf(t.Context(), name)
	require.NoError(t, err)
	from, err := cluster.MasterOf(t.Context(), slot)
	require.NoError(t, err)
	to := cluster.OtherMaster(t, from)

	limiter := exhausted(t, redis, time.Hour, rratelimiter.Overall)
	const maxAge = 100 * time.Millisecond
	aged := rratelimiter.New(redis, rratelimiter.WithDenialCache(maxAge)).Limiter(name)
	require.True(t, denied(t, aged)) // it has read its keys
	number := strconv.Itoa(slot)
	to.Text(t, "CLUSTER", "SETSLOT", number, "IMPORTING", from.Text(t, "CLUSTER", "MYID"))
	from.Text(t, "CLUSTER", "SETSLOT", number, "MIGRATING", to.Text(t, "CLUSTER", "MYID"))
	from.Text(t, "MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), "", "0", "5000", "KEYS", name, "{"+name+"}:value",
		"{"+name+"}:permits")

	sent := func() (n int64) {
		for _, node := range cluster.Nodes() {
			n += commands(t, node)
		}
		return n
	}
	before := sent()
	for range 1000 {
		require.True(t, denied(t, limiter))
	}
	require.Equal(t, before, sent(), "commands of denials from memory")

	time.Sleep(maxAge)
	require.True(t, denied(t, aged))
	// ASKING and the script, twice: the new node lacks the script at first.
	require.LessOrEqual(t, sent()-before, int64(4), "commands of a denial through ASK")
}

// connect returns a client with the default options of rueidis, which include its cache.
func connect(t *testing.T, addr string) rueidis.Client {
	return servers.Connect(t, rueidis.ClientOption{InitAddress: []string{addr}})
}

// commands returns how many scripts a server has run, with the other commands of redirected calls and
// of reads through a client's cache.
func commands(t *testing.T, server *servers.Server) int64 {
	return server.Calls(t, "eval", "evalsha", "asking", "exec")
}
