package prefetches_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/faults/outages"
	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

const (
	goClients = 3 // each with callers of its own
	callers   = 2 // of each

	// enough is how many grants of a load come from prefetches, however long that takes.
	enough = 1000

	// settled is the time after a fault in which calls may still fail.
	settled = 1500 * time.Millisecond
)

// load is callers in bursts. Between bursts, permits return that can be prefetched.
type load struct {
	t              *testing.T
	redis          rueidis.Client
	limiter        *rratelimiter.Limiter // without prefetches
	java           *oracle.Limiter
	goBooks, javas *ledger.Ledger
	stop           chan struct{}
	running        sync.WaitGroup
	broken         []ledger.Failure // times in which calls may fail
	lostFrom, lost time.Time        // Redis may lose grants between them
	audit          func()
	prefetched     atomic.Int64 // grants from prefetches
}

// start sets the rate and starts the callers.
func start(t *testing.T, on outages.Target) *load {
	t.Helper()
	l := &load{
		t: t, redis: servers.Connect(t, on.Redis), goBooks: ledger.New(func(err error) string { return err.Error() }),
		javas: ledger.New(func(err error) string { return err.Error() }), stop: make(chan struct{}),
	}
	l.java = oracle.Start(t, "4.7.0", on.Redisson, oracle.WithTimeout(time.Second)).Limiter(name)
	l.limiter = setRate(t, l.redis, rratelimiter.Rate{Permits: rate, Interval: interval})
	for client := range uint64(goClients) {
		prefetched := rratelimiter.New(servers.Connect(t, on.Redis), rratelimiter.WithPrefetch(prefetch),
			rratelimiter.WithObserver(countPrefetched(&l.prefetched))).Limiter(name)
		for caller := range uint64(callers) {
			l.running.Go(func() { l.bursts(prefetched, rand.New(rand.NewPCG(client, caller))) })
		}
	}
	l.running.Go(l.javaBursts)
	l.audit = state.Audit(t, l.redis, name, rate)
	t.Cleanup(l.end) // if the test ends early
	return l
}

// countPrefetched returns an observer that counts grants from prefetches.
func countPrefetched(n *atomic.Int64) *rratelimiter.Observer {
	return &rratelimiter.Observer{Decision: func(_ context.Context, d rratelimiter.DecisionInfo) {
		if d.Source == rratelimiter.FromPrefetch && d.Granted {
			n.Add(1)
		}
	}}
}

func (l *load) end() {
	if !l.stopped() {
		close(l.stop)
	}
	l.running.Wait()
	l.audit()
}

func (l *load) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// bursts takes permits one after another, by several calls, with pauses.
func (l *load) bursts(prefetched *rratelimiter.Limiter, random *rand.Rand) {
	for !l.stopped() {
		way, burst := random.IntN(4), 1+random.IntN(600)
		for i := 0; i < burst && !l.stopped(); i++ {
			permits := 1 + random.Int64N(2)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			granted, err := l.goBooks.Time("go", permits, func() (bool, error) {
				return everycall.Acquire(ctx, prefetched, way, permits, 20*time.Millisecond)
			})
			cancel()
			if err != nil || !granted {
				break
			}
			if i%16 == 15 {
				time.Sleep(time.Duration(random.Int64N(int64(2 * time.Millisecond))))
			}
		}
		time.Sleep(time.Duration(random.Int64N(int64(150 * time.Millisecond))))
	}
}

// javaBursts runs four threads of Redisson, a fifth of the time.
func (l *load) javaBursts() {
	for !l.stopped() {
		ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
		err := l.java.Crowd(ctx, oracle.Crowd{Threads: 4, Permits: 1, AcquireTimeout: 10 * time.Millisecond,
			Duration: 200 * time.Millisecond}, l.javas)
		cancel()
		if err != nil {
			l.t.Errorf("the Java side has ended: %v", err)
			return
		}
		time.Sleep(800 * time.Millisecond)
	}
}

// breaks allows calls to fail while a function runs, and for a time after it.
func (l *load) breaks(fault func()) {
	from := time.Now()
	fault()
	l.broken = append(l.broken, ledger.Failure{Start: from, End: time.Now().Add(settled)})
}

// finish ends the load and asserts that no window exceeds the rate and no permit is missing in the
// end.
func (l *load) finish() {
	l.t.Helper()
	require.Eventually(l.t, func() bool { return l.prefetched.Load() > enough }, settleTimeout, 10*time.Millisecond,
		"too few grants came from prefetches")
	l.end()
	ended := time.Now()
	all := append(l.goBooks.Grants(), l.javas.Grants()...)
	kept := slices.DeleteFunc(slices.Clone(all), func(g ledger.Grant) bool {
		return !l.lost.IsZero() && !g.End.Before(l.lostFrom) && !g.Start.After(l.lost)
	})
	var lost int64
	for _, g := range all {
		lost += g.Permits
	}
	for _, g := range kept {
		lost -= g.Permits
	}
	worst, worstKept := ledger.Worst(all, interval), ledger.Worst(kept, interval)
	l.t.Logf("%d grants of Go, %d of them from prefetches, %d of Java; the fullest window held %d of %d, %d permits "+
		"may have been lost; %d errors",
		len(l.goBooks.Grants()), l.prefetched.Load(), len(l.javas.Grants()), worst.Permits, rate, lost,
		len(l.goBooks.Failures()))
	require.LessOrEqual(l.t, worstKept.Permits, int64(rate), "the window from %v, without what may be lost",
		worstKept.Start)
	require.LessOrEqual(l.t, worst.Permits, rate+lost, "the window from %v", worst.Start)
	require.NotEmpty(l.t, l.javas.Grants())
	late := 0
	for _, f := range l.goBooks.Failures() {
		if slices.ContainsFunc(l.broken,
			func(s ledger.Failure) bool { return !f.Start.After(s.End) && !f.End.Before(s.Start) }) {
			continue
		}
		require.True(l.t, strings.HasSuffix(f.Kind, context.DeadlineExceeded.Error()),
			"a call failed while nothing was broken: %+v", f)
		late++
	}
	require.LessOrEqual(l.t, late, len(l.goBooks.Grants())/10, "calls whose deadline passed while nothing was broken")

	time.Sleep(time.Until(ended.Add(interval + prefetch + 100*time.Millisecond)))
	free, err := l.limiter.AvailablePermits(l.t.Context())
	require.NoError(l.t, err)
	require.EqualValues(l.t, rate, free, "all permits are free")
	free, err = l.java.AvailablePermits(l.t.Context())
	require.NoError(l.t, err)
	require.EqualValues(l.t, rate, free, "all permits are free for Java")
}

// A server that hangs keeps grants for callers that have gone, and prefetches that have ended when
// their reply arrives.
func TestPrefetch_ServerPaused_KeepsTheRate(t *testing.T) {
	t.Parallel()
	server := servers.Single(t)
	l := start(t, outages.OnSingle(server))
	for range max(1, int(loadTime/(4*time.Second))) {
		time.Sleep(loadTime / 4)
		l.breaks(func() {
			require.NoError(t, server.Pause())
			time.Sleep(1200 * time.Millisecond)
			require.NoError(t, server.Resume())
		})
		time.Sleep(loadTime / 3)
	}
	l.finish()
}

// The server runs calls and their replies are lost with their connections, repeatedly, with a prefetch
// or without.
func TestPrefetch_RepliesLost_KeepsTheRate(t *testing.T) {
	t.Parallel()
	server := servers.Single(t)
	on, disturbed := outages.OnSingle(server), proxy.Start(t, server.Addr())
	on.Redis.InitAddress = []string{disturbed.Listen}
	l := start(t, on)
	l.breaks(func() {
		for began := time.Now(); time.Since(began) < loadTime; {
			restore := disturbed.Disturb(t, "timeout", "downstream", `"timeout": 0`)
			time.Sleep(10 * time.Millisecond)
			restore() // closes the connections
			time.Sleep(250 * time.Millisecond)
		}
	})
	l.finish()
	require.NotEmpty(t, l.goBooks.Failures(), "no reply was lost")
}

// The master is killed with grants that its replicas lack: its last ones, and prefetched permits.
func TestPrefetch_SentinelMasterKilled_BoundsTheLoss(t *testing.T) {
	t.Parallel()
	sentinel := servers.NewSentinel(t)
	l := start(t, outages.OnSentinel(sentinel))
	time.Sleep(loadTime / 3)
	master, err := sentinel.Master(t.Context())
	require.NoError(t, err)
	l.breaks(func() {
		// A replica on this machine is never so far behind.
		l.lostFrom = time.Now().Add(-100 * time.Millisecond)
		require.NoError(t, master.Kill())
		l.lost = time.Now().Add(prefetch)
		sentinel.AwaitOtherMaster(t, master)
	})
	time.Sleep(2 * loadTime / 3)
	l.finish()
}
