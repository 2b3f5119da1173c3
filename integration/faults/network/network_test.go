// Package network_test puts a faulty network between the limiter and Redis. Each test has one kind
// of fault.
//
// A monitor and a second client observe Redis directly.
package network_test

import (
	"context"
	"math/bits"
	"math/rand/v2"
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
)

const (
	name     = "uploads"
	rate     = 300
	interval = time.Second

	// givenUp is the time after which rueidis closes a connection without replies.
	givenUp = 2 * time.Second

	// late is the longest time from the end of a context to the return of its call. A busy machine
	// needs much less.
	late = 2 * time.Second

	// moment is the longest time after which a call reads the clock although its caller has gone.
	moment = 100 * time.Millisecond

	manyConnections = 4 // the default of rueidis
)

// link is a limiter behind a proxy that disturbs the connections.
type link struct {
	proxy    proxy.Proxy
	redis    rueidis.Client
	limiter  *rratelimiter.Limiter // over the proxy
	bypass   rueidis.Client        // without the proxy
	direct   *rratelimiter.Limiter // likewise
	acquires *acquires
	books    *ledger.Ledger

	close  func()
	latest ledger.Longest // time from the end of a context to the return of its call
}

// newLink returns a link without a disturbance.
func newLink(t *testing.T, connections int) *link {
	t.Helper()
	server := servers.Single(t)
	l := &link{books: ledger.New(classify)}
	l.proxy = proxy.Start(t, server.Addr())
	connect := func(addr string) rueidis.Client {
		multiplex := bits.Len(uint(connections)) - 1
		if multiplex == 0 {
			multiplex = -1 // 0 is the default
		}
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, ConnWriteTimeout: givenUp,
			PipelineMultiplex: multiplex,
		})
		require.NoError(t, err)
		return client
	}
	l.redis = connect(l.proxy.Listen)
	l.bypass = connect(server.Addr())
	l.limiter = rratelimiter.New(l.redis).Limiter(name)
	l.direct = rratelimiter.New(l.bypass).Limiter(name)
	require.NoError(t, l.direct.SetRate(t.Context(), rratelimiter.Rate{Permits: rate, Interval: interval}))
	l.acquires = watch(t, server.Addr())
	// Redis and the monitor have the script from here on, so that each call is one EVALSHA.
	granted, err := l.direct.TryAcquire(t.Context(), 1)
	require.NoError(t, err)
	require.True(t, granted)
	require.Eventually(t, l.acquires.learn, late, time.Millisecond)
	require.NoError(t, l.direct.Release(t.Context(), 1))

	l.close = sync.OnceFunc(func() {
		l.redis.Close()
		l.bypass.Close()
		l.acquires.monitor.Close()
		l.proxy.Stop()
	})
	t.Cleanup(l.close)
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
// disturb runs.
func (l *link) load(timeout time.Duration, disturb func()) {
	const callers = 16
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

// end waits an idle interval after the last call, asserts the promises, logs the figures, and
// returns the errors by kind.
func (l *link) end(t *testing.T, run string) map[string]int64 {
	t.Helper()
	ended := time.Now()
	// A call whose caller has gone may reach Redis late, with the time when it was sent. So all
	// permits return an interval after the last caller has gone, or a moment later.
	time.Sleep(time.Until(ended.Add(interval)))
	if newest, ok := l.newest(t); ok {
		require.Less(t, newest.Sub(ended), moment, "a call has a time after the last caller had gone")
		time.Sleep(time.Until(newest.Add(interval)))
	}
	free, err := l.direct.AvailablePermits(context.Background())
	require.NoError(t, err)
	missing := rate - free
	granted, err := l.direct.TryAcquire(context.Background(), rate)
	require.NoError(t, err)

	l.acquires.monitor.CatchUp(t)
	calls, again := l.acquires.calls()
	l.close()
	// rueidis closes a connection without replies only after givenUp, and some after five seconds.
	// toxiproxy may leave a goroutine if a connection is reset while it forwards data.
	left := leaks.OfClients(3*givenUp + 5*time.Second)
	figures := l.books.Figures(run, rate, interval, missing, left)
	t.Logf("%v\n%d acquire calls reached Redis, %d of them a second time; the latest call returned %v after its context ended",
		figures, calls, again, l.latest.Get().Round(time.Millisecond))

	require.Zero(t, missing, "permits are missing an interval after the last call")
	require.True(t, granted, "permits are counted but cannot be taken")
	require.Zero(t, again, "calls were sent again")
	require.LessOrEqual(t, figures.Worst, figures.Rate, "the fullest window")
	require.Empty(t, l.books.Unclassified())
	require.Zero(t, left, "goroutines are left:\n%s", leaks.Stacks())
	require.Less(t, l.latest.Get(), late, "a call returned long after its context ended")
	return figures.Errors
}

// newest returns the time of the newest grant in Redis.
func (l *link) newest(t *testing.T) (time.Time, bool) {
	t.Helper()
	b := l.bypass.B()
	grants, err := l.bypass.Do(context.Background(),
		b.Zrevrange().Key("{"+name+"}:permits").Start(0).Stop(0).Withscores().Build()).AsZScores()
	require.NoError(t, err)
	if len(grants) == 0 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(grants[0].Score)), true
}
