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

// Each kind of change.
func TestDenialCache_ChangeByAnotherClient_SeenAfterMaxAge(t *testing.T) {
	const maxAge = 2 * time.Second
	rate := rratelimiter.Rate{Permits: 10, Interval: time.Hour}
	for kind, test := range map[string]struct {
		rateType rratelimiter.RateType
		change   func(ctx context.Context, other *rratelimiter.Limiter) error
	}{
		"release": {rratelimiter.Overall, func(ctx context.Context, other *rratelimiter.Limiter) error {
			return other.Release(ctx, 1)
		}},
		"setRate": {rratelimiter.Overall, func(ctx context.Context, other *rratelimiter.Limiter) error {
			return other.SetRate(ctx, rate)
		}},
		"updateRate of a PER_CLIENT limiter": {rratelimiter.PerClient,
			func(ctx context.Context, other *rratelimiter.Limiter) error {
				_, err := other.UpdateRate(ctx, rate)
				return err
			}},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := servers.Single(t)
			limiter := exhausted(t, connect(t, server.Addr()), maxAge, test.rateType)
			before := commands(t, server)
			for range 100 {
				require.True(t, denied(t, limiter))
			}
			require.Equal(t, before, commands(t, server), "commands that denials from memory send")
			require.NoError(t, test.change(t.Context(), rratelimiter.New(connect(t, server.Addr())).Limiter(name)))
			time.Sleep(maxAge)
			require.False(t, denied(t, limiter))
		})
	}
}

// No denial from memory waits for Redis or leaves a goroutine.
func TestDenialCache_HungServer_DeniesAtOnce(t *testing.T) {
	server := servers.Single(t)
	limiter := exhausted(t, connect(t, server.Addr()), time.Hour, rratelimiter.Overall)
	require.NoError(t, server.Pause())
	denyAll(t, limiter)
	require.NoError(t, server.Resume())
}

// denyAll makes calls that are denied from memory.
func denyAll(t *testing.T, limiter *rratelimiter.Limiter) {
	t.Helper()
	// A call to Redis lasts as long as its context.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := limiter.AvailablePermits(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	goroutines := leaks.ClientsNow()
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var callers sync.WaitGroup
	var longest ledger.Longest
	for range 50 {
		callers.Go(func() {
			for range 20 {
				began := time.Now()
				decision, err := limiter.Take(ctx, 1)
				longest.Add(time.Since(began))
				assert.NoError(t, err)
				assert.False(t, decision.Allowed)
				assert.Positive(t, decision.RetryAfter)
			}
		})
	}
	callers.Wait()
	assert.Less(t, longest.Get(), 5*time.Second, "of 1,000 denials on a busy machine")
	assert.LessOrEqual(t, leaks.ClientsNow(), goroutines, "goroutines of 1,000 denials")
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
