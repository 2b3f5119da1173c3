package outages

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/compatibility/oracle"
	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
	"github.com/rratelimiter/rratelimiter/integration/tools/ledger"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// The limiter of every Load. Its permits return evenly over the interval, so that grants are under
// way at every fault.
const (
	Name     = "{shop}:checkout"
	Rate     = 500
	Interval = time.Second
)

const (
	goCallers   = 8
	javaCallers = 8

	// late is the time from the end of a context to the return of its call from which the call
	// counts as late. A busy machine needs much less.
	late = time.Second

	// settled is the time after a fault in which a client replaces all of its connections.
	settled = time.Second

	// stall is the time of a plain command from which the machine counts as too busy.
	stall = 250 * time.Millisecond

	// pause is the shortest time between two calls of a caller.
	pause = 5 * time.Millisecond

	// within is the timeout of TryAcquireWithin. A call whose timeout ends before the first reply of
	// Redis is an error, which a busy machine must not cause.
	within = 2 * time.Second

	// settleTimeout is the time limit for conditions that a test waits for.
	settleTimeout = 60 * time.Second
)

// Load is callers in Go and in Redisson that take permits of one limiter until Stop, and callers in Go
// of a Join.
type Load struct {
	t       testing.TB
	fault   string
	redis   rueidis.Client
	limiter *rratelimiter.Limiter
	java    *oracle.Limiter
	join    *join

	goBooks, javaBooks *ledger.Ledger
	lateCalls          atomic.Int64
	latest             ledger.Longest // from the end of a context to the return of its call

	losses     []loss
	emptied    time.Time // when Redis lost all its data
	allReplies bool      // every reply arrives, so that permits of callers that left are released

	started time.Time
	faults  []span
	stalls  []span        // times in which the machine stalled
	asleep  time.Duration // the longest time by which a sleep of this process was late, also in a fault
	plain   []time.Time   // when plain commands were answered, one after another with a pause

	stop    chan struct{}
	callers sync.WaitGroup
}

// span is a time in which something was broken.
type span struct{ from, to time.Time }

// meets reports whether a call was under way in that time.
func (s span) meets(f ledger.Failure) bool { return !f.End.Before(s.from) && !f.Start.After(s.to) }

// holds reports whether a call was made within that time.
func (s span) holds(g ledger.Grant) bool { return !g.Start.Before(s.from) && !g.End.After(s.to) }

// loss is a time: Redis may lose the grants of calls that were under way in it.
type loss struct{ from, to time.Time }

// Start sets the limiter's rate and starts the callers. It returns when both libraries got permits,
// which return evenly over the interval.
func Start(t testing.TB, fault string, on Target) *Load {
	t.Helper()
	// Redisson sends calls again: with a longer timeout they would end after the load.
	redisson := oracle.Start(t, "4.7.0", on.Redisson, oracle.WithTimeout(time.Second))
	redis := servers.Connect(t, on.Redis)
	client := rratelimiter.New(redis)
	l := &Load{
		t:         t,
		fault:     fault,
		redis:     redis,
		limiter:   client.Limiter(Name),
		java:      redisson.Limiter(Name),
		join:      newJoin(client),
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
	for i := range joinCallers {
		l.callers.Go(func() { l.joinCaller(i) })
	}
	l.callers.Go(func() { l.watchMachine(on.Redis) })
	// Threads of many small requests, and of fewer larger ones that wait longer.
	l.callers.Go(func() {
		l.javaCrowd(oracle.Crowd{Threads: javaCallers / 2, Permits: 1, AcquireTimeout: 50 * time.Millisecond})
	})
	l.callers.Go(func() {
		l.javaCrowd(oracle.Crowd{Threads: javaCallers / 2, Permits: 3, AcquireTimeout: 300 * time.Millisecond})
	})
	t.Cleanup(func() { // if the test ends before its Stop
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

// SetRate sets the limiter's rate if it has none.
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

// AwaitGrants waits until both libraries got permits by calls that began after a time.
func (l *Load) AwaitGrants(after time.Time) {
	l.t.Helper()
	ended := time.Now().Add(settleTimeout)
	for name, books := range map[string]*ledger.Ledger{"Go": l.goBooks, "Java": l.javaBooks} {
		for !books.GrantedAfter(after) {
			require.True(l.t, time.Now().Before(ended), "no grant for %s since %v; its errors: %v", name, after,
				books.Errors())
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// Break marks the beginning of a fault, and Repair its end. Calls may fail between them, and until
// settled has passed.
func (l *Load) Break() { l.faults = append(l.faults, span{from: time.Now()}) }

// Recover waits until both libraries get permits after a fault, marks the fault's end, and stops the
// load two seconds later.
func (l *Load) Recover() *Outcome {
	l.t.Helper()
	l.AwaitGrants(time.Now())
	l.Repair()
	l.Run(2 * time.Second)
	return l.Stop()
}

// Repair ends what Break began.
func (l *Load) Repair() { l.faults[len(l.faults)-1].to = time.Now() }

// MayLose allows Redis to lose the grants of calls that were under way in a time.
func (l *Load) MayLose(from, to time.Time) { l.losses = append(l.losses, loss{from, to}) }

// Stop ends the callers, waits an idle interval, counts missing permits, and closes the Go client. It
// logs the fault's figures.
func (l *Load) Stop() *Outcome {
	l.t.Helper()
	close(l.stop)
	stopped := time.Now()
	l.callers.Wait()
	ended := time.Now()
	o := &Outcome{Load: l, run: span{l.started, stopped}}
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
	// The counted permits can be taken.
	o.allTaken, err = l.limiter.TryAcquire(ctx, Rate)
	require.NoError(l.t, err)
	o.joined = l.awaitJoin()

	l.redis.Close()
	l.t.Logf("\n%s", Table(o))
	outcomes.Lock()
	defer outcomes.Unlock()
	outcomes.all = append(outcomes.all, o)
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
var outcomes struct {
	sync.Mutex
	all []*Outcome
}

// The Go callers, in the ledger.
const (
	waits = "waits" // for permits
	tries = "tries" // to take free ones
)

// warmUp takes the permits of one interval evenly, so that they return evenly.
func (l *Load) warmUp() {
	const steps = 50
	tick := time.NewTicker(Interval / steps)
	defer tick.Stop()
	for range steps {
		<-tick.C
		granted, err := l.goBooks.Time(tries, Rate/steps, func() (bool, error) {
			return l.limiter.TryAcquire(context.Background(), Rate/steps)
		})
		require.NoError(l.t, err)
		require.True(l.t, granted)
	}
}

// goCaller takes permits again and again, by the call that i selects, each time with a context that
// ends after within to twice as long. It pauses after each call. Without pauses, Go would take all
// permits that return at once, as after a loss of data.
func (l *Load) goCaller(i int) {
	random := rand.New(rand.NewPCG(uint64(i), 0))
	who := tries
	if everycall.Waits(i) {
		who = waits
	}
	for !l.stopped() {
		permits := 1 + random.Int64N(3)
		deadline := time.Now().Add(within + time.Duration(random.Int64N(int64(within))))
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		_, _ = l.goBooks.Time(who, permits, func() (bool, error) {
			granted, err := everycall.Acquire(ctx, l.limiter, i, permits, within)
			if isDenial(err) {
				err = nil
			}
			return granted, err
		})
		by := time.Since(deadline)
		l.latest.Add(by)
		if by > late {
			l.lateCalls.Add(1)
		}
		cancel()
		time.Sleep(pause + time.Duration(random.Int64N(int64(10*time.Millisecond))))
	}
}

// watchMachine records when this process or the limiter's server stalls, and how often a plain command is
// answered. It sends that over its own connections.
func (l *Load) watchMachine(on rueidis.ClientOption) {
	on.DialCtxFn = nil
	bare, err := rueidis.NewClient(on)
	if err != nil {
		l.t.Errorf("watchMachine: %v", err)
		return
	}
	defer bare.Close()
	for begun := time.Now(); !l.stopped(); {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if bare.Do(ctx, bare.B().Exists().Key(Name).Build()).Error() == nil {
			l.plain = append(l.plain, time.Now())
		}
		cancel()
		answered := time.Now()
		time.Sleep(pause)
		ended := time.Now()
		l.asleep = max(l.asleep, ended.Sub(answered)-pause)
		if ended.Sub(begun) > stall {
			l.stalls = append(l.stalls, span{begun, ended})
		}
		begun = ended
	}
}

// javaCrowd runs the crowd second by second, since a crowd ends only by its own clock.
func (l *Load) javaCrowd(crowd oracle.Crowd) {
	crowd.Duration = time.Second
	for !l.stopped() {
		ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
		err := l.java.Crowd(ctx, crowd, l.javaBooks)
		cancel()
		if err != nil {
			l.t.Errorf("the Java side has ended: %v", err)
			return
		}
	}
}

// classifyGo returns the kind of an error of the load's limiter.
func classifyGo(err error) string { return Kind(err, Name) }

// isDenial reports whether an error says that the permits cannot be had before the deadline. Redis has
// replied, and the limiter is exhausted: callers that wait ask a few milliseconds late, so those that
// only try, and Java, can take all permits before them.
func isDenial(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "cannot be had before the deadline")
}

// classifyJava returns the kind of an exception of Redisson: the word of Redis or the class.
func classifyJava(err error) string {
	text := strings.TrimPrefix(err.Error(), ": ")
	if strings.Contains(text, "RateLimiter is not initialized") {
		return notInitialized
	}
	for _, word := range redisWords {
		if strings.Contains(text, word) {
			return word
		}
	}
	class, _, _ := strings.Cut(text, ":")
	return class[strings.LastIndexByte(class, '.')+1:]
}
