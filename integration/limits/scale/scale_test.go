// Package scale_test tests very many limiters, and very many callers that wait for one limiter.
package scale_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/integration/tools/env"
	"github.com/rratelimiter/rratelimiter/integration/tools/leaks"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

const (
	name     = "queue"
	rate     = 500
	interval = 100 * time.Millisecond
)

// many is the number of callers that wait for one name, by default 20,000.
var many = int(env.Number("WAITERS", 20_000))

// Many goroutines wait for one name, with various requests, deadlines and timeouts. Another name of
// the same Client is not delayed, and all waiters return when they are cancelled. Permits of cancelled
// callers are released.
//
// The times depend on the machine. The delay of the other name is a median, compared with as many idle
// goroutines, and so is the time that cancelled callers need. What delays a plain command as well is not the Client.
func TestAcquire_ManyWaiters_DelayNoOtherName(t *testing.T) {
	server := servers.Single(t)
	c := connect(t, server)
	other := c.Limiter("other")
	require.NoError(t, other.SetRate(t.Context(), rratelimiter.Rate{Permits: 1_000_000_000, Interval: time.Hour}))
	limiter := c.Limiter(name)
	require.NoError(t, limiter.SetRate(t.Context(), rratelimiter.Rate{Permits: rate, Interval: interval}))

	crowd := gather()
	bare := servers.Connect(t, rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true,
		DisableCache: true})
	alone, plainAlone := probe(t, other, bare)
	idlersTook := crowd.call(func(ctx context.Context, i int) error {
		permits := 1 + int64(i%3)
		switch i % 4 {
		case 0:
			return limiter.Acquire(ctx, permits)
		case 1:
			_, err := limiter.TryAcquireWithin(ctx, permits, 10*time.Minute)
			return err
		}
		ends := 10 * time.Minute
		if i%4 == 3 {
			ends = time.Duration(rand.Int64N(int64(time.Minute))) // many of them unreachable
		}
		ctx, cancel := context.WithTimeout(ctx, ends)
		defer cancel()
		return limiter.Acquire(ctx, permits)
	})
	calls := server.Calls(t, "evalsha")
	crowded, plain := probe(t, other, bare)
	calls = server.Calls(t, "evalsha") - calls - int64(len(crowded))
	require.Positive(t, calls, "no call for the waiters")
	waiting := many - int(crowd.ended.Load())
	took := crowd.dismiss()

	at := func(of []time.Duration, share float64) time.Duration {
		return of[int(share*float64(len(of)-1))].Round(time.Microsecond)
	}
	t.Logf("%d of %d waited to the end; %d script calls for them\nanother name: %v at the median and %v at p99, %v and "+
		"%v without the crowd; a plain command: %v and %v\nall cancelled returned after %v, they had been woken after %v",
		waiting, many, calls, at(crowded, 0.5), at(crowded, 0.99), at(alone, 0.5), at(alone, 0.99),
		at(plain, 0.5), at(plainAlone, 0.5), took.Round(time.Millisecond), idlersTook.Round(time.Millisecond))
	require.Empty(t, crowd.wrong())
	require.Greater(t, waiting, many/4, "few callers waited to the end")
	delay, machine := at(crowded, 0.5)-at(alone, 0.5), at(plain, 0.5)-at(plainAlone, 0.5)
	require.Less(t, delay-max(0, machine), 5*time.Millisecond, "another name is delayed")
	require.Less(t, took, time.Second+5*idlersTook)
	require.Zero(t, leaks.OfLimiters(10*time.Second)) // releases of permits too
	time.Sleep(interval)
	require.True(t, redistest.Result(t, limiter.TryAcquire, rate), "all permits are free")
}

// Many calls are cancelled while the server hangs. They leave no memory and no goroutine.
func TestTryAcquire_ManyCancelled_LeaveNothing(t *testing.T) {
	const maxGoroutines = 32
	maxHeld := int64(many) * 100 // less than a request each
	server := servers.Single(t)
	c := connect(t, server)
	limiter := c.Limiter(name)
	require.NoError(t, limiter.SetRate(t.Context(), rratelimiter.Rate{Permits: int64(many), Interval: time.Hour}))
	try := func(ctx context.Context, _ int) error { _, err := limiter.TryAcquire(ctx, 1); return err }
	// The runtime and the Redis client allocate their memory for so many goroutines before the
	// measurement.
	before := gather()
	before.call(try)
	before.dismiss()
	require.Zero(t, leaks.OfLimiters(10*time.Second))
	require.NoError(t, limiter.SetRate(t.Context(), rratelimiter.Rate{Permits: int64(many), Interval: time.Hour}))
	idle, held := leaks.ClientsNow(), leaks.Heap()

	crowd := gather()
	require.NoError(t, server.Pause())
	crowd.call(try)
	took := crowd.dismiss()
	more, goroutines := leaks.Heap()-held, leaks.ClientsNow()-idle
	require.NoError(t, server.Resume())

	t.Logf("%d calls returned %v after they were cancelled and left %d bytes, %.1f for each, and %d goroutines", many,
		took.Round(time.Millisecond), more, float64(more)/float64(many), goroutines)
	require.Empty(t, crowd.wrong())
	require.EqualValues(t, many, crowd.failed.Load(), "the server answered")
	require.Less(t, more, maxHeld)
	require.LessOrEqual(t, goroutines, maxGoroutines)
	require.Zero(t, leaks.OfLimiters(10*time.Second))
	require.EqualValues(t, many, redistest.Available(t, limiter), "permits of cancelled callers were released")
}

// connect returns a Client whose connections stay open while the server or the machine hangs.
func connect(t *testing.T, server *servers.Server) *rratelimiter.Client {
	t.Helper()
	client := servers.Connect(t,
		rueidis.ClientOption{InitAddress: []string{server.Addr()}, ForceSingleClient: true, DisableCache: true,
			ConnWriteTimeout: time.Minute})
	return rratelimiter.New(client)
}

// goroutines are many callers. They wait at first and then make one call each, with a shared
// context.
type goroutines struct {
	make  func(ctx context.Context, i int) error
	begin chan struct{} // closed to start the calls

	ctx     context.Context
	cancel  context.CancelFunc
	woken   sync.WaitGroup
	running sync.WaitGroup
	ended   atomic.Int64
	failed  atomic.Int64 // of those that ended

	mu   sync.Mutex
	errs []error // the first ones that are not ends of the context
}

// gather returns when all goroutines run.
func gather() *goroutines {
	g := &goroutines{begin: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	var there sync.WaitGroup
	there.Add(many)
	g.woken.Add(many)
	for i := range many {
		g.running.Go(func() {
			there.Done()
			<-g.begin
			g.woken.Done()
			g.note(g.make(g.ctx, i))
		})
	}
	there.Wait()
	return g
}

// call starts the calls, and returns the time until all goroutines have started.
func (g *goroutines) call(one func(ctx context.Context, i int) error) time.Duration {
	g.make = one
	start := time.Now()
	close(g.begin)
	g.woken.Wait()
	return time.Since(start)
}

func (g *goroutines) note(err error) {
	g.ended.Add(1)
	if err == nil {
		return
	}
	g.failed.Add(1)
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if len(g.errs) < 5 {
			g.errs = append(g.errs, err)
		}
	}
}

// dismiss cancels all calls, and returns the time until they have returned.
func (g *goroutines) dismiss() time.Duration {
	start := time.Now()
	g.cancel()
	g.running.Wait()
	return time.Since(start)
}

func (g *goroutines) wrong() []error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.errs
}

const probes = 500

// probe takes permits one after another for half a second, each beside a plain command on a connection of its own. It
// returns the durations of both, the shortest first.
func probe(t *testing.T, l *rratelimiter.Limiter, bare rueidis.Client) (took, plain []time.Duration) {
	t.Helper()
	for range probes {
		start := time.Now()
		granted, err := l.TryAcquire(t.Context(), 1)
		took = append(took, time.Since(start))
		require.NoError(t, err)
		require.True(t, granted)
		start = time.Now()
		require.NoError(t, bare.Do(t.Context(), bare.B().Exists().Key(name).Build()).Error())
		plain = append(plain, time.Since(start))
		time.Sleep(time.Millisecond)
	}
	slices.Sort(took)
	slices.Sort(plain)
	return took, plain
}

// NAMES limiters are created with a KeepAlive and used once. The test measures their memory. Every key
// expires by then, and the process never kept anything per name.
func TestLimiter_ManyNames_LeaveNothing(t *testing.T) {
	count := int(env.Number("NAMES", 15_000))
	server := servers.Single(t)
	goroutines := runtime.NumGoroutine()
	client := server.Client(t)
	c := rratelimiter.New(client)

	const keepAlive = time.Hour
	open(t, c, "trial", 4000, keepAlive) // for which buffers and pools grow
	require.NoError(t, client.Do(t.Context(), client.B().Flushall().Build()).Error())

	redisBefore, heapBefore := server.Memory(t), leaks.Heap()
	begun := time.Now()
	open(t, c, "user", count, keepAlive)
	took := time.Since(begun)
	require.Equal(t, int64(3*count), server.Keys(t), "a configuration, a value and a set each")
	redisAfter, heapAfter := server.Memory(t), leaks.Heap()
	require.Zero(t, leaks.OfLimiters(10*time.Second), "goroutines of names")
	require.Equal(t, int64(3*count), server.Expiring(t), "keys that expire")

	// The pace decides how much a pool of buffers holds. From a million names on, one byte per name
	// would be more.
	const slack = 1 << 20
	t.Logf(`
| limiters | made and used in | Redis, bytes a limiter | process, bytes a limiter |
| -------: | ---------------: | ---------------------: | -----------------------: |
| %d | %v | %d | %.2f |`,
		count, took.Round(10*time.Millisecond), (redisAfter-redisBefore)/int64(count),
		float64(heapAfter-heapBefore)/float64(count))
	require.Less(t, heapAfter-heapBefore, int64(slack), "memory of the process for %d names", count)

	client.Close()
	require.Zero(t, leaks.Goroutines(goroutines, 10*time.Second))
}

// open creates limiters and takes one permit of each.
func open(t *testing.T, c *rratelimiter.Client, prefix string, count int, keepAlive time.Duration) {
	t.Helper()
	const workers = 64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < count; i += workers {
				if !assert.NoError(t, use(t.Context(), c.Limiter(fmt.Sprintf("%s:%d", prefix, i)), keepAlive)) {
					return
				}
			}
		})
	}
	wg.Wait()
}

func use(ctx context.Context, l *rratelimiter.Limiter, keepAlive time.Duration) error {
	set, err := l.TrySetRate(ctx, rratelimiter.Rate{Permits: 10, Interval: time.Second, KeepAlive: keepAlive})
	if err != nil {
		return err
	}
	granted, err := l.TryAcquire(ctx, 1)
	if err == nil && (!set || !granted) {
		err = fmt.Errorf("%s: set %v, granted %v", l.Name(), set, granted)
	}
	return err
}
