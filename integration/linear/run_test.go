package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/suite"
)

// What all histories share.
var (
	nodes    *servers.Cluster
	conns    []rueidis.Client // one for each Client of a history
	redisson *oracle.Redisson
)

const clients = 3

func TestMain(m *testing.M) {
	suite.Main(m, func(t testing.TB) {
		nodes = servers.NewCluster(t)
		for range clients {
			conns = append(conns, servers.Connect(t, rueidis.ClientOption{InitAddress: nodes.Addrs()}))
		}
		// Redisson makes a call again whose reply was lost, and takes its permits twice.
		redisson = oracle.Start(t, "4.7.0", oracle.Cluster(nodes.Addrs()...), oracle.WithRetryAttempts(0))
	})
}

// histories returns how many histories a test checks: HISTORIES, or a number for daily runs.
func histories(daily int64) int { return int(env.Number("HISTORIES", daily)) }

// seed is that of the first history: SEED replays one.
func seed() uint64 { return env.Seed("SEED", 1) }

// nameOf returns a name that no other history has.
func nameOf(seed uint64) string { return fmt.Sprintf("linear-%d-%d", seed, time.Now().UnixNano()) }

// searchTimeout is how long porcupine may search for an order of one history.
const searchTimeout = 30 * time.Second

// check runs histories and requires that their models explain them. Few may be too long for porcupine.
func check(t *testing.T, name string, histories int, run func(i int, seed uint64) (*History, porcupine.Model)) {
	calls, unknown := 0, 0
	for i := range histories {
		seed := seed() + uint64(i)
		h, model := run(i, seed)
		switch result, info := porcupine.CheckOperationsVerbose(model, h.Calls(), searchTimeout); result {
		case porcupine.Illegal:
			page := filepath.Join(os.TempDir(), fmt.Sprintf("rratelimiter-linear-%s-%d.html", name, seed))
			require.NoError(t, porcupine.VisualizePath(model, info, page))
			require.Fail(t, "no order of the calls gives their answers", "SEED=%d HISTORIES=1: %s", seed, page)
		case porcupine.Unknown:
			unknown++
		}
		calls += len(h.Calls())
	}
	t.Logf("%d histories of %d calls, %d too long to check", histories, calls, unknown)
	require.LessOrEqual(t, unknown, histories/50)
}

// fault is what happens during a history.
type fault struct {
	happens func(t *testing.T, name string, random *rand.Rand) // nil: nothing
	pause   time.Duration                                      // before each call, at most
	late    bool                                               // a call that failed can take effect later
}

var (
	none     = fault{}
	cut      = fault{closeConnections, 2 * time.Millisecond, false}
	failover = fault{replaceMaster, 50 * time.Millisecond, true}
)

// closeConnections closes the connections of all clients to all masters.
func closeConnections(t *testing.T, _ string, random *rand.Rand) {
	for range 1 + random.IntN(3) {
		time.Sleep(time.Duration(random.IntN(4000)) * time.Microsecond)
		for _, node := range nodes.Nodes() {
			_, err := node.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			require.NoError(t, err)
		}
	}
}

// elected has the times at which nodes became masters. A replica of Redis 7.0 that won an election
// within the last seconds counts those votes again, and becomes master without a new election. It
// loses calls until its old master corrects it.
var elected = make(map[string]time.Time)

// electionEnd is the time after which a replica forgets an election, with the node timeout of
// package servers.
const electionEnd = 10 * time.Second

// replaceMaster makes the replica of a limiter its master. Nothing is lost.
func replaceMaster(t *testing.T, name string, random *rand.Rand) {
	time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
	slot, err := nodes.SlotOf(t.Context(), name)
	require.NoError(t, err)
	var replica *servers.Server
	require.Eventually(t, func() bool { // the last failover may still be under way
		replica, err = nodes.ReplicaOf(t.Context(), slot)
		return err == nil && time.Since(elected[replica.Addr()]) > electionEnd
	}, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		// A failover that takes longer than five seconds gives up.
		_, _ = replica.Do(t.Context(), "CLUSTER", "FAILOVER")
		for range 100 {
			if master, err := nodes.MasterOf(t.Context(), slot); err == nil && master.Addr() == replica.Addr() {
				elected[replica.Addr()] = time.Now()
				return true
			}
			time.Sleep(5 * time.Millisecond)
		}
		return false
	}, time.Minute, time.Millisecond)
}

// caller makes the calls of one goroutine.
type caller struct {
	number int
	random *rand.Rand
}

// each runs callers at once, each with random numbers of its own.
func each(seed uint64, callers int, run func(c *caller)) {
	var done sync.WaitGroup
	for i := range callers {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		done.Go(func() { run(&caller{number: i, random: random}) })
	}
	done.Wait()
}

// makeCalls runs six callers, each of which makes some calls, and a fault.
func makeCalls(t *testing.T, seed uint64, name string, f fault, call func(c *caller)) {
	var done sync.WaitGroup
	if f.happens != nil {
		done.Go(func() { f.happens(t, name, rand.New(rand.NewPCG(seed, 99))) })
	}
	each(seed, 6, func(c *caller) {
		for range 5 + c.random.IntN(5) {
			if f.pause > 0 {
				time.Sleep(time.Duration(c.random.Int64N(int64(f.pause))))
			}
			call(c)
		}
	})
	done.Wait()
}

// advance sets the clock of a history now and then, by a number of ticks: a little ahead, or to where
// permits return.
func advance(clock *Clock, random *rand.Rand, interval, tick time.Duration) {
	seen := clock.Seen()
	now := seen[len(seen)-1]
	switch random.IntN(12) {
	case 0:
		clock.Advance(now + tick.Microseconds()*random.Int64N(int64(interval/tick)/8))
	case 1, 2:
		clock.Advance(seen[random.IntN(len(seen))] + interval.Microseconds() - tick.Microseconds()*random.Int64N(2))
	}
}

// set sets the rate of a limiter, also if a connection was cut before.
func set(t *testing.T, l *rratelimiter.Limiter, rate rratelimiter.Rate) {
	require.EventuallyWithT(t, func(c *assert.CollectT) { require.NoError(c, l.SetRate(t.Context(), rate)) },
		10*time.Second, time.Millisecond)
}

// limiterCall makes a call of a limiter in Go.
func limiterCall(l *rratelimiter.Limiter, interval time.Duration) func(context.Context, Input) Output {
	return func(ctx context.Context, in Input) (out Output) {
		rate := rratelimiter.Rate{Permits: in.Permits, Interval: interval}
		switch in.Call {
		case TryAcquire:
			out.Allowed, out.Err = l.TryAcquire(ctx, in.Permits)
		case Take:
			out.Decision, out.Err = l.Take(ctx, in.Permits)
		case TakeUpTo:
			out.Available, out.Decision, out.Err = l.TakeUpTo(ctx, in.Permits)
		case Release:
			out.Err = l.Release(ctx, in.Permits)
		case SetRate:
			out.Err = l.SetRate(ctx, rate)
		case KeepState:
			out.Err = l.SetRate(ctx, rate, rratelimiter.KeepState())
		case AvailablePermits:
			out.Available, out.Err = l.AvailablePermits(ctx)
		case Delete:
			out.Allowed, out.Err = l.Delete(ctx)
		default:
			panic(in.Call)
		}
		return out
	}
}
