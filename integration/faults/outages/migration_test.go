package outages

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
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
