// Package network_test puts a bad network between the limiter and Redis: each test file is one way
// in which it is bad.
//
// Whatever the network does, Redis is looked at past it: by a monitor that sees every call arrive,
// and by a client of its own.
package network_test

import (
	"context"
	"errors"
	"io"
	"math/bits"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
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

	// givenUp is how long rueidis waits for an answer before it gives a connection up.
	givenUp = 2 * time.Second

	// late is by how much a call may outlive its context: much more than a busy machine needs to
	// wake it.
	late = 2 * time.Second

	// moment is what a call that was about to leave when its caller went may need until it has read
	// the clock, on a busy machine.
	moment = 100 * time.Millisecond

	manyConnections = 4 // as many as rueidis has where nothing is said
)

// link is a limiter behind a proxy that tests make bad.
type link struct {
	proxy    proxy.Proxy
	redis    rueidis.Client
	limiter  *rratelimiter.Limiter // over the proxy
	past     rueidis.Client        // past the proxy
	direct   *rratelimiter.Limiter // likewise
	acquires *acquires
	books    *ledger.Ledger

	close  func()
	latest atomic.Int64 // by how much a call outlived its context at most, in nanoseconds
}

// newLink makes a link that is good, of so many connections.
func newLink(t *testing.T, connections int) *link {
	t.Helper()
	server := servers.Single(t)
	l := &link{books: ledger.New(classify)}
	l.proxy = proxy.Start(t, server.Addr())
	connect := func(addr string) rueidis.Client {
		multiplex := bits.Len(uint(connections)) - 1
		if multiplex == 0 {
			multiplex = -1 // where 0 is the default
		}
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true, ConnWriteTimeout: givenUp,
			PipelineMultiplex: multiplex,
		})
		require.NoError(t, err)
		return client
	}
	l.redis = connect(l.proxy.Listen)
	l.past = connect(server.Addr())
	l.limiter = rratelimiter.New(l.redis).Limiter(name)
	l.direct = rratelimiter.New(l.past).Limiter(name)
	require.NoError(t, l.direct.SetRate(t.Context(), rratelimiter.Rate{Permits: rate, Interval: interval}))
	l.acquires = watch(t, server.Addr())
	// Redis knows the script from here on, so that each call is one EVALSHA, and so does the
	// monitor.
	for _, take := range []func() (bool, error){
		func() (bool, error) { return l.direct.TryAcquire(t.Context(), 1) },
		func() (bool, error) {
			decision, err := l.direct.Take(t.Context(), 1)
			return decision.Allowed, err
		},
	} {
		granted, err := take()
		require.NoError(t, err)
		require.True(t, granted)
		require.Eventually(t, func() bool { return l.acquires.learn() == 1 }, late, time.Millisecond)
	}
	require.NoError(t, l.direct.Release(t.Context(), 2))

	l.close = sync.OnceFunc(func() {
		l.redis.Close()
		l.past.Close()
		l.acquires.monitor.Close()
		l.proxy.Stop()
	})
	t.Cleanup(l.close)
	return l
}

// classify names the kind of an error, "" for one that a caller could not make sense of.
func classify(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline"
	case !strings.Contains(err.Error(), name):
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err,
		syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return "cut"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer"
	}
	return ""
}

// load lets callers take permits by all calls, each with a context that ends within timeout, while
// the network does its worst.
func (l *link) load(timeout time.Duration, worst func()) {
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
	worst()
	close(stop)
	wg.Wait()
}

// call makes one call, the i-th way, and books it.
func (l *link) call(i int, permits int64, timeout time.Duration, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ends := time.Now().Add(timeout)
	if random.IntN(4) == 0 {
		// A caller that loses interest rather than time.
		early := time.Duration(random.Int64N(int64(timeout)))
		ends = time.Now().Add(early)
		defer time.AfterFunc(early, cancel).Stop()
	}
	_, _ = l.books.Time("go", permits, func() (bool, error) {
		return everycall.Acquire(ctx, l.limiter, i, permits, timeout/2)
	})
	by := int64(time.Since(ends))
	for {
		latest := l.latest.Load()
		if by <= latest || l.latest.CompareAndSwap(latest, by) {
			return
		}
	}
}

// end demands what holds on every network, one idle interval after the last call, prints the
// figures and gives the kinds of errors that there were.
func (l *link) end(t *testing.T, run string) map[string]int64 {
	t.Helper()
	ended := time.Now()
	// A call whose caller has gone may reach Redis late, but it is dated as it left. So all that
	// callers can have taken is back an interval after the last of them has gone. A call may leave
	// a moment after that, if it met the end of its caller.
	time.Sleep(time.Until(ended.Add(interval)))
	if newest, ok := l.newest(t); ok {
		require.Less(t, newest.Sub(ended), moment, "a call was dated after the last caller had gone")
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
	// rueidis gives up a connection without replies only in the end, and closes some after five
	// seconds. toxiproxy leaves one of its own behind if a connection is reset while it passes
	// something on.
	left := leaks.OfClients(3*givenUp + 5*time.Second)
	figures := l.books.Figures(run, rate, interval, missing, left)
	t.Logf("\n%s%d acquire calls reached Redis, %d of them a second time; the latest caller was %v behind its context",
		ledger.Table(figures), calls, again, max(0, time.Duration(l.latest.Load())).Round(time.Millisecond))

	require.Zero(t, missing, "permits are not back one interval after the last call")
	require.True(t, granted, "permits are back, but not there to take")
	require.Zero(t, again, "calls were sent again")
	require.LessOrEqual(t, figures.Worst, figures.Rate, "the fullest window")
	require.Empty(t, l.books.Unclassified())
	require.Zero(t, left, "goroutines are left:\n%s", leaks.Stacks())
	require.Less(t, time.Duration(l.latest.Load()), late, "a call outlived its context")
	return figures.Errors
}

// newest is the date of the newest grant that Redis holds.
func (l *link) newest(t *testing.T) (time.Time, bool) {
	t.Helper()
	b := l.past.B()
	grants, err := l.past.Do(context.Background(),
		b.Zrevrange().Key("{"+name+"}:permits").Start(0).Stop(0).Withscores().Build()).AsZScores()
	require.NoError(t, err)
	if len(grants) == 0 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(grants[0].Score)), true
}
