package benchmarks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
)

// limit is a rate that every library can set.
type limit struct {
	permits  int64
	interval time.Duration
}

// Few runs grant a milliard permits, and a window of an hour keeps all grants of a run: each can be
// checked.
var (
	generous = limit{1_000_000_000, time.Hour}
	scarce   = limit{10, time.Hour}
)

// load describes the calls of a benchmark.
type load struct {
	addr    string        // of a slow link, in place of the server's
	ping    time.Duration // a lone PING over the link
	cluster bool          // on a cluster of three masters
	callers int
	rate    float64 // calls a second that wait for no reply, in place of callers that do
	names   []string
	zipf    bool  // the names are called by a Zipf distribution with s = 1.1, else evenly
	most    int64 // calls request 1 to so many permits, at random
	limit   limit
	denied  bool // every call must be denied, else granted
	context contextKind
	warmup  time.Duration
}

// granting and denying are loads on one name.
func granting(callers int) load {
	return load{callers: callers, names: names(1), most: 1, limit: generous, warmup: 150 * time.Millisecond}
}

func denying(callers int) load {
	l := granting(callers)
	l.limit, l.denied = scarce, true
	return l
}

// grantingNames is a load on many names. Its warm-up is long enough for a call of most of 10,000
// names: the first call of a name costs more than the others.
func grantingNames(callers, count int) load {
	l := granting(callers)
	l.names, l.warmup = names(count), 800*time.Millisecond
	return l
}

const namePrefix = "limiter-"

func names(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = namePrefix + strconv.Itoa(i)
	}
	return list
}

// contextKind is the context of the calls. It decides how rueidis runs a call: on the caller's
// goroutine or, if the context can end and has no deadline, on two others. A library that returns as
// soon as the context ends needs another goroutine, too.
type contextKind string

const (
	endless     contextKind = ""            // one for all calls, which cannot end
	deadline    contextKind = "deadline"    // one for each call, which ends later than any call takes
	cancellable contextKind = "cancellable" // one for each call, which is cancelled
)

// make makes the context of one call, as users do.
func (k contextKind) make(ctx context.Context) (context.Context, context.CancelFunc) {
	switch k {
	case deadline:
		return context.WithTimeout(ctx, time.Minute)
	case cancellable:
		return context.WithCancel(ctx)
	default:
		return ctx, func() {}
	}
}

// tally has the results of calls.
type tally struct {
	decisions, granted, failed int64
	allPermits                 int64 // granted since the session began, warm-up and preparation included
	err                        error // of one call that failed
	latency                    *hdrhistogram.Histogram
}

func newTally() tally {
	return tally{latency: hdrhistogram.New(1, time.Minute.Nanoseconds(), 2)}
}

func (t *tally) add(other *tally) {
	t.decisions += other.decisions
	t.granted += other.granted
	t.failed += other.failed
	t.allPermits += other.allPermits
	t.latency.Merge(other.latency)
	if other.err != nil {
		t.err = other.err
	}
}

// With many callers, one call in so many is timed. To time each one costs a shared call a part of its
// rate, since the histograms of all callers are larger than a cache.
const (
	manyCallers = 64
	timedOf     = 8
)

// caller calls in a loop. Its figures are its own until it has ended.
type caller struct {
	tally
	self   int
	turn   int
	random *rand.Rand
	zipf   *rand.Zipf
	_      [64]byte
}

func newCaller(self int, l load) *caller {
	c := &caller{tally: newTally(), self: self, turn: self, random: rand.New(rand.NewPCG(uint64(self), 1))}
	if l.zipf {
		c.zipf = rand.NewZipf(c.random, 1.1, 1, uint64(len(l.names)-1))
	}
	return c
}

// call makes one call.
func (c *caller) call(ctx context.Context, take take, l load, counted bool) {
	name, permits := 0, int64(1)
	switch {
	case l.zipf:
		name = int(c.zipf.Uint64())
	case len(l.names) > 1:
		name = c.random.IntN(len(l.names))
	}
	if l.most > 1 {
		permits = 1 + c.random.Int64N(l.most)
	}
	c.turn++
	timed := counted && (l.callers < manyCallers || c.turn%timedOf == 0)
	var start time.Time
	if timed {
		start = time.Now()
	}
	callCtx, cancel := l.context.make(ctx)
	granted, err := take(callCtx, c.self, name, permits)
	cancel()
	if timed {
		_ = c.latency.RecordValue(time.Since(start).Nanoseconds())
	}
	if granted {
		c.allPermits += permits
	}
	if counted {
		c.count(granted, err)
	}
}

// count counts the result of a call.
func (t *tally) count(granted bool, err error) {
	t.decisions++
	switch {
	case err != nil:
		t.failed++
		t.err = err
	case granted:
		t.granted++
	}
}

const linkDelay = 2 * time.Millisecond

// overLink is the load over a slow link.
func (l load) overLink(b testing.TB) load { return l.through(b, shared(b).addr) }

// through puts a proxy before a server, which delays each direction by half of the link. ping is the
// median of some.
func (l load) through(b testing.TB, addr string) load {
	p := proxy.Start(b, addr)
	for _, direction := range []string{"upstream", "downstream"} {
		p.Disturb(b, "latency", direction, fmt.Sprintf(`"latency": %d`, linkDelay.Milliseconds()/2))
	}
	redis := dial(b, p.Listen)
	var took []time.Duration
	for range 50 {
		start := time.Now()
		require.NoError(b, redis.Do(context.Background(), redis.B().Ping().Build()).Error())
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	l.addr, l.ping = p.Listen, took[len(took)/2]
	return l
}
