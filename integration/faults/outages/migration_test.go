package outages

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/limit"
)

// The limiter's slot moves to another master under load, by the steps of redis-cli. For half a
// second the slot belongs to two nodes, and one redirects callers to the other (ASK). Afterwards
// the old one redirects them permanently (MOVED).
func TestOutage_SlotMigration_NoPermitIsLost(t *testing.T) {
	t.Parallel()
	cluster := servers.NewCluster(t)
	slot, from, _ := limiterSlot(t, cluster)
	to := cluster.OtherMaster(t, from)
	target := OnCluster(cluster)
	seen := countRedirections(&target)
	// The callers learn of the move in several ways. This client makes no call until the end of the
	// move.
	other := OnCluster(cluster)
	redirections := countRedirections(&other)
	asleep, err := rueidis.NewClient(other.Redis)
	require.NoError(t, err)
	defer asleep.Close()
	load := Start(t, "live migration of the slot", target)

	load.Run(time.Second)
	load.Break()
	migrate(t, cluster, slot, from, to, func() { load.Run(250 * time.Millisecond) })
	_, err = rratelimiter.New(asleep).Limiter(Name).AvailablePermits(t.Context())
	require.NoError(t, err)
	asleep.Close() // a ping during a call leaves goroutines until its client is closed
	outcome := load.Recover()
	// A call retries for a quarter of a second.
	outcome.Require(Most{"TRYAGAIN": outcome.oftenBy(250 * time.Millisecond), deadline: outcome.oftenBy(within)})
	require.Positive(t, seen.ask.Load(), "ASK was never seen")
	require.Positive(t, redirections.moved.Load(), "MOVED was never seen")
}

// Valkey 9 moves a slot as a whole: it copies the keys and follows their changes, then pauses the slot
// for a moment. No caller is redirected with ASK, and none has to try again.
func TestOutage_AtomicSlotMigration_NoPermitIsLost(t *testing.T) {
	t.Parallel()
	cluster := servers.NewCluster(t)
	slot, from, _ := limiterSlot(t, cluster)
	to := cluster.OtherMaster(t, from)
	number := strconv.Itoa(slot)
	move := []string{"CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", number, number, "NODE", to.Text(t, "CLUSTER", "MYID")}
	if help := from.List(t, "CLUSTER", "HELP"); !slices.ContainsFunc(help, func(line string) bool {
		return strings.HasPrefix(line, "MIGRATESLOTS")
	}) {
		_, err := from.Do(t.Context(), move...)
		require.ErrorContains(t, err, "nknown subcommand", "a server without CLUSTER MIGRATESLOTS rejects it")
		return
	}
	target := OnCluster(cluster)
	seen := countRedirections(&target)
	load := Start(t, "atomic migration of the slot", target)

	load.Run(time.Second)
	load.Break()
	command(t, from, move...)
	cluster.AwaitMaster(t, slot, to)
	load.Run(250 * time.Millisecond)
	outcome := load.Recover()
	outcome.Require(Most{})
	require.Zero(t, seen.ask.Load(), "ASK")
	require.Positive(t, seen.moved.Load(), "MOVED was never seen")
}

// migrate moves a slot with its keys, and waits between the steps.
func migrate(t *testing.T, cluster *servers.Cluster, slot int, from, to *servers.Server, wait func()) {
	t.Helper()
	number := strconv.Itoa(slot)
	command(t, to, "CLUSTER", "SETSLOT", number, "IMPORTING", from.Text(t, "CLUSTER", "MYID"))
	command(t, from, "CLUSTER", "SETSLOT", number, "MIGRATING", to.Text(t, "CLUSTER", "MYID"))
	wait()
	for {
		message, err := from.Do(t.Context(), "CLUSTER", "GETKEYSINSLOT", number, "100")
		require.NoError(t, err)
		keys, err := message.AsStrSlice()
		require.NoError(t, err)
		if len(keys) == 0 {
			break
		}
		host, port, err := net.SplitHostPort(to.Addr())
		require.NoError(t, err)
		command(t, from, append([]string{"MIGRATE", host, port, "", "0", "5000", "KEYS"}, keys...)...)
	}
	wait()
	command(t, to, "CLUSTER", "SETSLOT", number, "NODE", to.Text(t, "CLUSTER", "MYID"))
	command(t, from, "CLUSTER", "SETSLOT", number, "NODE", to.Text(t, "CLUSTER", "MYID"))
	cluster.AwaitMaster(t, slot, to)
}

// redirections counts the redirections of the Go client.
type redirections struct{ ask, moved atomic.Int64 }

// countRedirections counts redirections in the replies on the Go client's connections.
func countRedirections(on *Target) *redirections {
	seen := new(redirections)
	on.Redis.DialCtxFn = func(ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return &countingConn{conn, seen}, nil
	}
	return seen
}

type countingConn struct {
	net.Conn
	seen *redirections
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.seen.ask.Add(int64(bytes.Count(p[:n], []byte("-ASK "))))
	c.seen.moved.Add(int64(bytes.Count(p[:n], []byte("-MOVED "))))
	return n, err
}

// TestOutage_SlotsMigrateUnderManyNames_NoPermitIsLost: calls for many names share a pipeline for each
// node. Some callers leave.
func TestOutage_SlotsMigrateUnderManyNames_NoPermitIsLost(t *testing.T) {
	t.Parallel()
	const names, callers = 300, 128
	cluster := servers.NewCluster(t)
	target := OnCluster(cluster)
	seen := countRedirections(&target)
	redis, err := rueidis.NewClient(target.Redis)
	require.NoError(t, err)
	defer redis.Close()
	keyed := limit.NewKeyed(rratelimiter.New(redis), "users", limit.FixedWindow{Permits: 1_000_000, Interval: time.Hour})
	var granted [names]atomic.Int64
	// The permit of a caller that leaves stays taken if its call is older than the window.
	for name := range names {
		ok, err := keyed.TryAcquire(t.Context(), fmt.Sprint(name), 1)
		require.NoError(t, err)
		require.True(t, ok)
		granted[name].Add(1)
	}
	var stop atomic.Bool
	var left atomic.Int64
	var all sync.WaitGroup
	time.Sleep(time.Second)
	for i := range callers {
		random := rand.New(rand.NewPCG(uint64(i), 0))
		all.Go(func() {
			for !stop.Load() {
				name, ctx, cancel := random.IntN(names), context.Background(), func() {}
				if i%2 == 0 {
					timeout := 5 * time.Second
					if random.IntN(10) == 0 {
						timeout = time.Duration(random.Int64N(int64(4 * time.Millisecond)))
					}
					ctx, cancel = context.WithTimeout(ctx, timeout)
				}
				ok, err := keyed.TryAcquire(ctx, fmt.Sprint(name), 1)
				cancel()
				switch {
				case err == nil && ok:
					granted[name].Add(1)
				case errors.Is(err, context.DeadlineExceeded):
					left.Add(1)
				default:
					assert.NoError(t, err)
				}
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	for name := range 12 {
		slot, err := cluster.SlotOf(t.Context(), fmt.Sprintf("{users:%d}", name))
		require.NoError(t, err)
		from, err := cluster.MasterOf(t.Context(), slot)
		require.NoError(t, err)
		migrate(t, cluster, slot, from, cluster.OtherMaster(t, from), func() { time.Sleep(50 * time.Millisecond) })
	}
	time.Sleep(500 * time.Millisecond)
	stop.Store(true)
	all.Wait()
	time.Sleep(500 * time.Millisecond) // the permits of callers that have left return
	sum := int64(0)
	for name := range names {
		decisions, err := keyed.Limiter(fmt.Sprint(name)).Peek(t.Context())
		require.NoError(t, err)
		assert.Equal(t, 1_000_000-granted[name].Load(), decisions[0].Remaining, name)
		sum += granted[name].Load()
	}
	t.Logf("%d grants, %d callers left, %d ASK, %d MOVED", sum, left.Load(), seen.ask.Load(), seen.moved.Load())
	require.Positive(t, seen.ask.Load(), "ASK was never seen")
	require.Positive(t, seen.moved.Load(), "MOVED was never seen")
	require.Positive(t, left.Load())
}
