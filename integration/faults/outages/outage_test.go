package outages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

var outageRate = rratelimiter.Rate{Permits: 1_000_000, Interval: time.Hour}

const (
	// givenUp is the time after which rueidis closes a connection without replies, and connecting its
	// timeout for a connect.
	givenUp    = 2 * time.Second
	connecting = time.Second

	// repliesWithin is the longest time of a call without a deadline while Redis does not reply. The
	// call may arrive during another call and be sent after it, over a new connection.
	repliesWithin = givenUp + connecting + late

	// impatience is the timeout of callers with a deadline.
	impatience = 100 * time.Millisecond
)

// The server is down for OUTAGE. Meanwhile every call is repeated with a deadline, with a context
// that is cancelled, and with one that cannot end. Each returns its error in time. After the last
// caller has returned, no goroutine works for it.
func TestOutage_EveryCall_FailsInTime(t *testing.T) {
	length := env.Duration("OUTAGE", 2*time.Second)
	for name, test := range map[string]struct {
		fail   func(*servers.Server) error
		repair func(*servers.Server) error
		linger time.Duration // of work after the last caller
	}{
		"killed": {(*servers.Server).Kill, (*servers.Server).Restart, time.Second},
		// Sent calls end with their connection.
		"hung": {(*servers.Server).Pause, (*servers.Server).Resume, repliesWithin},
	} {
		t.Run(name, func(t *testing.T) {
			server := servers.Single(t)
			redis := servers.Connect(t, rueidis.ClientOption{
				InitAddress: []string{server.Addr()}, ConnWriteTimeout: givenUp, Dialer: net.Dialer{Timeout: connecting},
			})
			limiter := rratelimiter.New(redis).Limiter(Name)
			calls := everycall.Of(limiter, outageRate, "{shop}:other")
			for _, call := range []string{"SetRate", "TryAcquire", "Exists", "SizeInMemory"} {
				require.NoError(t, calls[call](t.Context())) // which makes the connections
			}
			require.Zero(t, leaks.OfLimiters(settleTimeout))
			idle := leaks.ClientsNow()

			require.NoError(t, test.fail(server))
			outage := &outage{calls: calls, until: time.Now().Add(length), open: make(map[string]bool)}
			for _, call := range slices.Sorted(maps.Keys(calls)) {
				outage.call(call, "deadline", func() (context.Context, context.CancelFunc) {
					return context.WithTimeout(context.Background(), impatience)
				})
				outage.call(call, "cancelled", func() (context.Context, context.CancelFunc) {
					ctx, cancel := context.WithCancel(context.Background())
					time.AfterFunc(impatience, cancel)
					return ctx, cancel
				})
				outage.call(call, "no end",
					func() (context.Context, context.CancelFunc) { return context.Background(), func() {} })
			}
			outage.await(t)
			left := leaks.AboveClients(idle, test.linger)
			stacks := leaks.Stacks()
			require.NoError(t, test.repair(server))

			t.Logf("%d calls; those whose context ended returned up to %v later, the others took up to %v",
				outage.made,
				outage.latest.Round(time.Millisecond), outage.longest.Round(time.Millisecond))
			require.Empty(t, outage.wrong)
			require.Less(t, outage.latest, late, "a call returned long after its context ended")
			require.Less(t, outage.longest, repliesWithin, "a call without deadline")
			require.Zero(t, left, "goroutines continue without a caller:\n%s", stacks)
			require.Eventually(t, func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return limiter.SetRate(ctx, outageRate) == nil && calls["TryAcquire"](ctx) == nil
			}, settleTimeout, 10*time.Millisecond, "it works again")
		})
	}
}

// outage is callers while Redis is down.
type outage struct {
	calls   map[string]func(context.Context) error
	until   time.Time
	callers sync.WaitGroup

	mu      sync.Mutex
	open    map[string]bool // calls under way
	made    int
	latest  time.Duration // from the end of a context to the return of its call
	longest time.Duration // of a call whose context cannot end
	wrong   []string      // the first wrong results
}

// call makes one call again and again.
func (o *outage) call(name, kind string, begin func() (context.Context, context.CancelFunc)) {
	o.callers.Go(func() {
		for time.Now().Before(o.until) {
			o.mu.Lock()
			o.open[name+", "+kind] = true
			o.mu.Unlock()
			ctx, cancel := begin()
			start := time.Now()
			err := o.calls[name](ctx)
			took := time.Since(start)
			cancel()
			o.book(name, kind, err, took)
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// await waits until the last caller has gone.
func (o *outage) await(t *testing.T) {
	t.Helper()
	gone := make(chan struct{})
	go func() {
		o.callers.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(time.Until(o.until) + repliesWithin + settleTimeout):
		o.mu.Lock()
		defer o.mu.Unlock()
		require.Fail(t, "calls do not return", "%v", slices.Sorted(maps.Keys(o.open)))
	}
}

func (o *outage) book(name, kind string, err error, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.made++
	delete(o.open, name+", "+kind)
	if kind == "no end" {
		o.longest = max(o.longest, took)
	} else {
		o.latest = max(o.latest, took-impatience)
	}
	// The context of the caller. A deadline of rueidis names the limiter.
	ended := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	switch {
	case len(o.wrong) > 10:
	case err == nil:
		o.wrong = append(o.wrong, name+", "+kind+": no error")
	case !ended && classifyGo(err) == "" || ended && kind == "no end" && !strings.Contains(err.Error(), Name):
		o.wrong = append(o.wrong, name+", "+kind+": "+err.Error())
	}
}

// TestMain prints the figures of all faults in one table, which docs/measurements.md shows.
func TestMain(m *testing.M) {
	code := leaks.Main(m)
	if len(outcomes.all) > 0 {
		fmt.Printf("\n%s\n", Table(outcomes.all...))
	}
	os.Exit(code)
}

// command runs a command on a server.
func command(t *testing.T, s *servers.Server, args ...string) {
	t.Helper()
	_, err := s.Do(t.Context(), args...)
	require.NoError(t, err, "%v on %s", args, s.Addr())
}

// limiterSlot returns the limiter's slot and its nodes.
func limiterSlot(t *testing.T, cluster *servers.Cluster) (slot int, master, replica *servers.Server) {
	t.Helper()
	slot, err := cluster.SlotOf(t.Context(), Name)
	require.NoError(t, err)
	master, err = cluster.MasterOf(t.Context(), slot)
	require.NoError(t, err)
	replica, err = cluster.ReplicaOf(t.Context(), slot)
	require.NoError(t, err)
	return slot, master, replica
}
