package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/receipt"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// ending is a connection that ends the goroutine of some of its calls, as a mock does that fails
// its test.
type ending struct {
	rueidis.Client
	ends atomic.Int64 // so many of the next ones
}

func (c *ending) try() {
	if c.ends.Add(-1) >= 0 {
		time.Sleep(10 * time.Millisecond)
		runtime.Goexit()
	}
}

func (c *ending) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	c.try()
	return c.Client.Do(ctx, command)
}

func (c *ending) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	c.try()
	return c.Client.DoMulti(ctx, commands...)
}

// TestCall_ConnectionEndsItsGoroutine_NoCallerIsLeftWaiting: its caller gets an error, and the next
// callers are answered.
func TestCall_ConnectionEndsItsGoroutine_NoCallerIsLeftWaiting(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			withContexts(t, func(ctx context.Context, f *fixture) {
				conn := &ending{Client: f.Conn}
				var broken atomic.Int64 // calls that an observer has seen
				observer := &Observer{RedisCall: func(_ context.Context, c RedisCallInfo) {
					if errors.Is(c.Err, redisx.ErrNoReply) {
						broken.Add(1)
					}
				}}
				l := f.open(Settings{Redis: conn, Observer: observer}, 100, time.Minute)
				conn.ends.Store(1)
				var callers sync.WaitGroup
				errs := make([]error, 5)
				for i := range errs {
					callers.Go(func() {
						errs[i] = redisx.ErrNoReply // of a caller whose own goroutine ends
						time.Sleep(time.Duration(i) * time.Millisecond)
						errs[i] = way.call(ctx, l, 1)
					})
				}
				callers.Wait()
				assert.ErrorIs(f, errs[0], redisx.ErrNoReply)
				if ctx.Done() != nil || way.waits {
					assert.ErrorContains(f, errs[0], "limiter: ")
					assert.EqualValues(f, 1, broken.Load())
				}
				assert.NoError(f, errors.Join(errs[1:]...))
				f.RequireGranted(l, 1)
				synctest.Wait()
				f.idle(l)
			})
		})
	}
}

// TestCall_SharedCallEndsItsGoroutine_NextCallersAreAnswered: two shared calls are in flight, others collect requests for
// the next one, and the goroutine that would send it ends.
func TestCall_SharedCallEndsItsGoroutine_NextCallersAreAnswered(t *testing.T) {
	withContexts(t, func(ctx context.Context, f *fixture) {
		conn := &ending{Client: f.Conn}
		l := f.open(Settings{Redis: conn}, 100, time.Minute)
		conn.ends.Store(2) // a lone call, and the first shared one
		var callers sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			callers.Go(func() {
				errs[i] = redisx.ErrNoReply // of a caller whose own goroutine ends
				time.Sleep(time.Duration(i) * time.Millisecond)
				errs[i] = redistest.Err(l.TryAcquire(ctx, 1))
			})
		}
		callers.Wait()
		assert.ErrorIs(f, errs[0], redisx.ErrNoReply)
		assert.ErrorIs(f, errs[1], redisx.ErrNoReply)
		assert.NoError(f, errors.Join(errs[2:]...))
		synctest.Wait()
		f.idle(l)
	})
}

// setPrefetches replaces the prefetches of a limiter by prefetches of one permit for a second.
func (l *fake) setPrefetches(returns ...receipt.Refund) {
	e := l.Engine.registry.lockExisting(l.ID)
	defer e.mu.Unlock()
	e.prefetches.active = nil
	for _, back := range returns {
		e.prefetches.active = append(e.prefetches.active,
			Prefetch{Lasts: time.Second, Refund: back, unused: 1, sent: time.Now()})
	}
}

// TestQueue_ReleaseHangs_CallersAreAnswered: the first waits for prefetched permits, and the other one arrives
// during its call.
func TestQueue_ReleaseHangs_CallersAreAnswered(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.open(Settings{Prefetch: time.Second}, 10, time.Minute)
		f.RequireGranted(l, 10)
		f.Latency.Store(int64(trip))
		hangs := func(context.Context, int64) error { time.Sleep(10 * time.Second); return nil }
		l.setPrefetches(hangs, hangs)
		var first sync.WaitGroup
		first.Go(func() { assert.NoError(t, l.Acquire(t.Context(), 2)) })
		time.Sleep(trip / 2)
		start := time.Now()
		f.RequireFalse(l.TryAcquireWithin(t.Context(), 1, time.Second))
		assert.Equal(t, longTransfer+3*trip/2, time.Since(start), "after the call that it met, the release and a call of its own")
		first.Wait()
	})
}

// TestCall_ClockEndsItsGoroutine_LeavesNoCallerWaiting: as a failed assertion in a clock does, in
// any of its readings. A denial that is remembered reads the clock too.
func TestCall_ClockEndsItsGoroutine_LeavesNoCallerWaiting(t *testing.T) {
	release := way{name: "Release", call: func(ctx context.Context, l *fake, n int64) error { return l.Release(ctx, n) }}
	for _, way := range append(ways, release) {
		for ending := range int64(6) {
			runWithServer(t, fmt.Sprint(way.name, ending), func(t *testing.T, f *fixture) {
				var reading atomic.Int64
				reading.Store(100)
				l := f.open(Settings{Denials: time.Second, Now: func() time.Time {
					if reading.Add(1) == 1+ending {
						runtime.Goexit()
					}
					return time.Now()
				}}, map[bool]int64{true: 1000, false: 1}[way.waits], time.Hour) // others are denied
				f.RequireGranted(l, 1)
				f.Latency.Store(int64(10 * time.Millisecond))
				reading.Store(0)
				var callers sync.WaitGroup
				for i := range 20 {
					ctx := t.Context()
					if i%3 == 0 {
						ctx = context.Background()
					}
					callers.Go(func() {
						time.Sleep(time.Duration(i) * time.Millisecond)
						_ = way.call(ctx, l, 1)
					})
				}
				callers.Wait()
				reading.Store(100)
				require.NoError(t, way.call(t.Context(), l, 1))
				time.Sleep(time.Second)
				f.idle(l)
			})
		}
	}
}

// TestPrefetch_ReturnEndsItsGoroutine_OtherPrefetchesReturn: Flush would wait for them.
func TestPrefetch_ReturnEndsItsGoroutine_OtherPrefetchesReturn(t *testing.T) {
	for name, release := range map[string]func(f *fixture, l *fake){
		"waiter":  func(f *fixture, l *fake) { _, _ = l.TryAcquireWithin(f.Context(), 2, time.Second) },
		"request": func(f *fixture, l *fake) { go func() { _, _ = l.Try(f.Context(), Ask{Permits: 2}) }() },
		"change":  func(f *fixture, l *fake) { change(f.Context(), l.Engine, l.ID) },
		"expiry":  func(*fixture, *fake) { time.Sleep(2 * time.Second) },
	} {
		runWithServer(t, name, func(t *testing.T, f *fixture) {
			l := f.open(Settings{Prefetch: time.Second}, 10, 30*time.Second)
			f.RequireGranted(l, 10)
			var ended, returned atomic.Int64
			ends := func(context.Context, int64) error { ended.Add(1); runtime.Goexit(); return nil }
			returns := func(context.Context, int64) error { returned.Add(1); return nil }
			l.setPrefetches(ends, returns)
			release(f, l)
			time.Sleep(time.Second / 2)
			assert.Equal(t, []int64{1, 1}, []int64{ended.Load(), returned.Load()})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			assert.NoError(t, l.Engine.Flush(ctx))
			_, err := l.TryAcquireWithin(ctx, 2, 0)
			assert.NoError(t, err, "callers are served")
			time.Sleep(time.Minute)
		})
	}
}

// TestDetach_CallBreaksOff_CallerLearnsIt: if no context can end the call, it runs on the caller's
// goroutine.
func TestDetach_CallBreaksOff_CallerLearnsIt(t *testing.T) {
	assert.PanicsWithValue(t, "broken", func() {
		_, _ = Detach(context.Background(), func(context.Context) (int, error) { panic("broken") })
	})
	_, err := Detach(t.Context(), func(context.Context) (int, error) {
		runtime.Goexit()
		return 1, nil
	})
	assert.ErrorIs(t, err, redisx.ErrNoReply)
}

// TestDetach_ContextEnds_ReturnsAtOnce while the call goes on with a context that closes no
// connection.
func TestDetach_ContextEnds_ReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		var ended atomic.Bool
		_, err := Detach(ctx, func(ctx context.Context) (int, error) {
			_, limited := ctx.Deadline()
			assert.False(t, limited, "rueidis would answer the deadline by closing a connection that others use")
			assert.Nil(t, ctx.Done())
			time.Sleep(time.Second)
			ended.Store(true)
			return 1, nil
		})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		assert.True(t, ended.Load())
		_, err = Detach(ctx, func(context.Context) (int, error) { panic("called") })
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
