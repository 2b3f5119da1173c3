// Package network_test puts a faulty network between the limiter and Redis. Each test has one kind
// of fault.
//
// A second client observes Redis directly.
package network_test

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/faults/outages"
	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/integration/tools/state"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

const (
	name     = "uploads"
	rate     = 300
	interval = time.Second

	// givenUp is the time after which rueidis closes a connection without replies.
	givenUp = 2 * time.Second

	// late is the longest time from the end of a context to the return of its call. A busy machine
	// needs much less.
	late = 2 * time.Second
)

// link is a limiter behind a proxy that disturbs the connections.
type link struct {
	server  *servers.Server
	proxy   proxy.Proxy
	redis   rueidis.Client
	limiter *rratelimiter.Limiter // over the proxy
	bypass  rueidis.Client        // without the proxy
	direct  *rratelimiter.Limiter // likewise
	books   *ledger.Ledger
	latest  ledger.Longest // time from the end of a context to the return of its call
}

// newLink returns a link without a disturbance. The number of its connections is a power of two: 2 is
// the default of rueidis, and -1 is one connection.
func newLink(t *testing.T, multiplex int) *link {
	t.Helper()
	l := &link{server: servers.Single(t), books: ledger.New(classify)}
	l.proxy = proxy.Start(t, l.server.Addr())
	connect := func(addr string) rueidis.Client {
		return servers.Connect(t, rueidis.ClientOption{
			InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, ConnWriteTimeout: givenUp,
			PipelineMultiplex: multiplex,
		})
	}
	l.redis = connect(l.proxy.Listen)
	l.bypass = connect(l.server.Addr())
	l.limiter = rratelimiter.New(l.redis).Limiter(name)
	l.direct = rratelimiter.New(l.bypass).Limiter(name)
	require.NoError(t, l.direct.SetRate(t.Context(), rratelimiter.Rate{Permits: rate, Interval: interval}))
	return l
}

// awaitReplies waits until rueidis has replaced its connections.
func (l *link) awaitReplies(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := l.limiter.AvailablePermits(t.Context())
		return err == nil
	}, 2*givenUp, 10*time.Millisecond)
}

// classify returns the kind of an error of the limiter.
func classify(err error) string { return outages.Kind(err, name) }

// load has callers take permits by all calls, each with a context that ends within timeout, while
// disturb runs. A call that is sent twice takes permits twice, with one grant.
func (l *link) load(t *testing.T, timeout time.Duration, disturb func()) {
	const callers = 16
	defer state.Audit(t, l.bypass, name, rate)()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range callers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 0))
			for {
				select {
				case <-stop:
					return
				default:
				}
				l.call(i, 1+random.Int64N(3), timeout/2+time.Duration(random.Int64N(int64(timeout/2))), random)
				// About twice what the limiter grants.
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
			}
		})
	}
	disturb()
	close(stop)
	wg.Wait()
}

// call makes one call, which i selects, and books it.
func (l *link) call(i int, permits int64, timeout time.Duration, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ends := time.Now().Add(timeout)
	if random.IntN(4) == 0 {
		// The caller cancels before its deadline.
		early := time.Duration(random.Int64N(int64(timeout)))
		ends = time.Now().Add(early)
		defer time.AfterFunc(early, cancel).Stop()
	}
	_, _ = l.books.Time("go", permits, func() (bool, error) {
		return everycall.Acquire(ctx, l.limiter, i, permits, timeout/2)
	})
	l.latest.Add(time.Since(ends))
}

// end asserts the promises, logs the figures, and returns the errors by kind.
func (l *link) end(t *testing.T, run string) map[string]int64 {
	t.Helper()
	// A call whose caller has gone may reach Redis late, with the time when it was sent. So all
	// permits return an interval after the last caller has gone, or a moment later.
	var free int64
	for begun := time.Now(); free < rate && time.Since(begun) < interval+late; time.Sleep(10 * time.Millisecond) {
		var err error
		free, err = l.direct.AvailablePermits(context.Background())
		require.NoError(t, err)
	}
	granted, err := l.direct.TryAcquire(context.Background(), rate)
	require.NoError(t, err)
	figures := l.books.Figures(run, rate, interval, rate-free, 0)
	t.Logf("%v\nthe latest call returned %v after its context ended", figures, l.latest.Get().Round(time.Millisecond))

	require.Zero(t, figures.Missing, "permits are missing an interval after the last call")
	require.True(t, granted, "permits are counted but cannot be taken")
	require.LessOrEqual(t, figures.Worst, figures.Rate, "the fullest window")
	require.Empty(t, l.books.Unclassified())
	require.Less(t, l.latest.Get(), late, "a call returned long after its context ended")
	return figures.Errors
}

// Callers take permits while the network fails. No permit is lost, and no call fails in other ways
// than its fault explains. Package outages has faults that end all connections.
func TestNetwork_EachFault_NoPermitIsLost(t *testing.T) {
	const often = 500 * time.Millisecond
	delay := func(toxic, stream, attributes string) func(*testing.T, *link) {
		return func(t *testing.T, l *link) {
			l.proxy.Disturb(t, toxic, stream, attributes)
			time.Sleep(2 * time.Second)
		}
	}
	for fault, test := range map[string]struct {
		timeout time.Duration // of the calls
		disturb func(*testing.T, *link)
		some    string   // a kind of errors that occurs
		only    []string // kinds that may occur; nil: any known one
	}{
		// Replies are lost although the calls took effect.
		"connections end after 1500 bytes of replies": {often, delay("limit_data", "downstream", `"bytes": 1500`),
			"cut", nil},
		// Connections stay open but transfer nothing, as after a firewall has dropped their state. Calls
		// end with their contexts, and rueidis replaces the connections that it closed.
		"half-open connections for 3 s": {often, func(t *testing.T, l *link) {
			time.Sleep(500 * time.Millisecond)
			restoreUp := l.proxy.Disturb(t, "timeout", "upstream", `"timeout": 0`)
			restoreDown := l.proxy.Disturb(t, "timeout", "downstream", `"timeout": 0`)
			time.Sleep(givenUp + time.Second)
			restoreUp()
			restoreDown()
			time.Sleep(time.Second)
		}, "deadline", nil},
		"latency 60 ms, jitter 45 ms": {time.Second, func(t *testing.T, l *link) {
			l.proxy.Disturb(t, "latency", "upstream", `"latency": 20, "jitter": 15`)
			delay("latency", "downstream", `"latency": 40, "jitter": 30`)(t, l)
		}, "", []string{"deadline", "cancelled"}},
		// Most callers have gone before their reply.
		"latency above the callers' timeouts": {300 * time.Millisecond,
			delay("latency", "downstream", `"latency": 300, "jitter": 100`), "deadline",
			[]string{"deadline", "cancelled"}},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			l := newLink(t, 2)
			l.load(t, test.timeout, func() {
				test.disturb(t, l)
				// On a busy machine, few calls are made meanwhile.
				require.Eventually(t, func() bool { return test.some == "" || l.books.Errors()[test.some] > 0 },
					time.Minute, 10*time.Millisecond, "no error of %s", test.some)
			})
			kinds := l.end(t, fault)
			for kind := range kinds {
				require.True(t, test.only == nil || slices.Contains(test.only, kind), kind)
			}
		})
	}
}
