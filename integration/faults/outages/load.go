// Package outages puts a load of Go and Java callers on one limiter, and breaks the Redis under it:
// each test file is one fault.
//
// A test starts a Load, breaks and repairs something while it runs, and stops it. The Outcome has
// what the callers got and asserts the promises. Table prints it, one row for each fault.
package outages

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// The limiter of every Load. Its permits come back evenly over the interval, so that a fault always
// finds grants under way.
const (
	Name     = "{shop}:checkout"
	Rate     = 500
	Interval = time.Second
)

const (
	goCallers   = 16
	javaCallers = 16

	// late is by how much a call may outlive its context before it counts as late: much more than a
	// busy machine needs to wake it.
	late = time.Second

	// settled is how long a client that is served again may need until all of its connections are.
	settled = time.Second

	// stall is how long a bare command takes where the machine is too busy for anything to be
	// demanded of it.
	stall = 250 * time.Millisecond

	// pause is the shortest time between two calls of a caller.
	pause = 5 * time.Millisecond

	// within is the timeout of those who wait with one. A call whose timeout ends while Redis has
	// not answered at all is an error, which a machine that is busy with other things must not
	// bring about.
	within = time.Second

	// settleTimeout is how long a test waits for something that has to happen in the end.
	settleTimeout = 60 * time.Second
)

// Load is 32 callers, half of them Go's and half Redisson's, who take permits of one limiter until
// Stop.
type Load struct {
	t       testing.TB
	fault   string
	redis   rueidis.Client
	limiter *rratelimiter.Limiter
	java    *oracle.Limiter

	goBooks, javaBooks *ledger.Ledger
	lateCalls          atomic.Int64
	latest             atomic.Int64 // by how much the latest call outlived its context, in nanoseconds

	losses []loss

	started time.Time
	faults  []span
	stalls  []span // times in which the machine stalled

	stop    chan struct{}
	callers sync.WaitGroup
}

// span is a time in which something was broken.
type span struct{ from, to time.Time }

// meets reports whether a call was under way in that time.
func (s span) meets(f ledger.Failure) bool { return !f.End.Before(s.from) && !f.Start.After(s.to) }

// loss says that grants of calls that began before to and ended after from may be lost to the
// limiter.
type loss struct{ from, to time.Time }

// Start sets the limiter's rate and lets the callers loose. It returns once permits are granted
// evenly over the interval to both sides.
func Start(t testing.TB, fault string, on Target) *Load {
	t.Helper()
	// A short time-out, since a call that Redisson sends again would otherwise outlast the load.
	redisson := oracle.Start(t, "4.7.0", on.Redisson, oracle.WithTimeout(time.Second))
	redis := servers.Connect(t, on.Redis)
	l := &Load{
		t:         t,
		fault:     fault,
		redis:     redis,
		limiter:   rratelimiter.New(redis).Limiter(Name),
		java:      redisson.Limiter(Name),
		goBooks:   ledger.New(classifyGo),
		javaBooks: ledger.New(classifyJava),
		stop:      make(chan struct{}),
	}
	l.SetRate()
	l.warmUp()
	l.started = time.Now()
	for i := range goCallers {
		l.callers.Go(func() { l.goCaller(i) })
	}
	l.callers.Go(func() { l.watchMachine(on.Redis) })
	// Threads of many small requests, and of fewer larger ones that wait longer.
	l.callers.Go(func() {
		l.javaCrowd(oracle.Crowd{Threads: javaCallers / 2, Permits: 1, AcquireTimeout: 50 * time.Millisecond})
	})
	l.callers.Go(func() {
		l.javaCrowd(oracle.Crowd{Threads: javaCallers / 2, Permits: 3, AcquireTimeout: 300 * time.Millisecond})
	})
	t.Cleanup(func() { // where the test ends before its Stop
		select {
		case <-l.stop:
		default:
			close(l.stop)
		}
		l.callers.Wait()
	})
	l.AwaitGrants(l.started)
	return l
}

// SetRate gives the limiter its rate, where it has none.
func (l *Load) SetRate() {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	for {
		_, err := l.limiter.TrySetRate(ctx, rratelimiter.Rate{Permits: Rate, Interval: Interval})
		if err == nil {
			return
		}
		require.NoError(l.t, ctx.Err(), "TrySetRate: %v", err)
		time.Sleep(10 * time.Millisecond)
	}
}

func (l *Load) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// Run lets the load go on for a while.
func (l *Load) Run(d time.Duration) { time.Sleep(d) }

// AwaitGrants waits until both sides were granted permits by calls that began after the moment:
// they work again.
func (l *Load) AwaitGrants(after time.Time) {
	l.t.Helper()
	ended := time.Now().Add(settleTimeout)
	for _, side := range []struct {
		name  string
		books *ledger.Ledger
	}{{"Go", l.goBooks}, {"Java", l.javaBooks}} {
		for !grantedAfter(side.books.Grants(), after) {
			require.True(l.t, time.Now().Before(ended), "no grant for %s since %v; its errors: %v", side.name, after,
				side.books.Errors())
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func grantedAfter(grants []ledger.Grant, after time.Time) bool {
	for _, g := range grants {
		if g.Start.After(after) {
			return true
		}
	}
	return false
}

// Break marks the begin of a fault, and Repair its end, when both sides work again. Calls may fail
// in between, and until settled has passed.
func (l *Load) Break() { l.faults = append(l.faults, span{from: time.Now()}) }

// Recover waits until both sides are granted permits after a fault, marks the fault's end, and
// stops the load two seconds later.
func (l *Load) Recover() *Outcome {
	l.t.Helper()
	l.AwaitGrants(time.Now())
	l.Repair()
	l.Run(2 * time.Second)
	return l.Stop()
}

// Repair ends what Break began.
func (l *Load) Repair() { l.faults[len(l.faults)-1].to = time.Now() }

// MayLose allows Redis to have lost grants: those of calls that ended at from or
// later and had begun by to, at most.
func (l *Load) MayLose(from, to time.Time) { l.losses = append(l.losses, loss{from, to}) }

// Stop ends the callers, waits one idle interval, looks what is missing, and closes the Go client.
// It prints the fault's figures.
func (l *Load) Stop() *Outcome {
	l.t.Helper()
	close(l.stop)
	stopped := time.Now()
	l.callers.Wait()
	ended := time.Now()
	o := &Outcome{
		Fault:     l.fault,
		t:         l.t,
		run:       span{l.started, stopped},
		faults:    l.faults,
		stalls:    l.stalls,
		goBooks:   l.goBooks,
		javaBooks: l.javaBooks,
		lateCalls: l.lateCalls.Load(),
		latest:    max(0, time.Duration(l.latest.Load())),
	}

	for _, g := range append(l.goBooks.Grants(), l.javaBooks.Grants()...) {
		o.grants = append(o.grants, g)
		if l.mayBeLost(g) {
			o.lost += g.Permits
		} else {
			o.kept = append(o.kept, g)
		}
	}

	time.Sleep(time.Until(ended.Add(Interval)))
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	free, err := l.limiter.AvailablePermits(ctx)
	require.NoError(l.t, err)
	o.missing = Rate - free
	// Not only counted but there to take.
	o.allTaken, err = l.limiter.TryAcquire(ctx, Rate)
	require.NoError(l.t, err)

	l.redis.Close()
	// rueidis closes some connections after 5 s.
	if o.left = leaks.OfClients(10 * time.Second); o.left > 0 {
		o.stacks = leaks.Stacks()
	}
	l.t.Logf("\n%s", Table(o))
	outcomes = append(outcomes, o)
	return o
}

func (l *Load) mayBeLost(g ledger.Grant) bool {
	for _, loss := range l.losses {
		if !g.End.Before(loss.from) && !g.Start.After(loss.to) {
			return true
		}
	}
	return false
}

// outcomes are those of all faults so far.
var outcomes []*Outcome
