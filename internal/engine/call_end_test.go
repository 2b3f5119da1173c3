package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"

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
	for name, ask := range permitCalls {
		t.Run(name, func(t *testing.T) {
			withContexts(t, func(ctx context.Context, f *fixture) {
				conn := &ending{Client: f.Conn}
				var broken atomic.Int64 // calls that an observer has seen
				observer := &Observer{RedisCall: func(_ context.Context, c Call) {
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
						errs[i] = ask(ctx, l)
					})
				}
				callers.Wait()
				assert.ErrorIs(f, errs[0], redisx.ErrNoReply)
				if ctx.Done() != nil || name == "Wait" {
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

// TestLease_ReturnEndsItsGoroutine_OtherLeasesReturn: Flush would wait for them.
func TestLease_ReturnEndsItsGoroutine_OtherLeasesReturn(t *testing.T) {
	for name, release := range map[string]func(f *fixture, l *fake){
		"waiter":  func(f *fixture, l *fake) { _, _ = l.Wait(f.Context(), 2, time.Now().Add(time.Second)) },
		"request": func(f *fixture, l *fake) { go func() { _, _ = l.Try(f.Context(), Ask{Permits: 2}) }() },
		"change":  func(f *fixture, l *fake) { change(f.Context(), l.Engine, l.ID) },
		"expiry":  func(*fixture, *fake) { time.Sleep(2 * time.Second) },
	} {
		runWithServer(t, name, func(t *testing.T, f *fixture) {
			l := f.open(Settings{Lease: time.Second}, 10, 30*time.Second)
			f.RequireGranted(l, 10)
			var ended, returned atomic.Int64
			ends := func(context.Context, int64) error { ended.Add(1); runtime.Goexit(); return nil }
			returns := func(context.Context, int64) error { returned.Add(1); return nil }
			e := l.Engine.registry.lockExisting(l.ID)
			e.leases.leases = []activeLease{
				{Lease{Lasts: time.Second, Free: 1, Return: ends}, 1, time.Now()},
				{Lease{Lasts: time.Second, Free: 1, Return: returns}, 1, time.Now()},
			}
			e.mu.Unlock()
			release(f, l)
			time.Sleep(time.Second / 2)
			assert.Equal(t, []int64{1, 1}, []int64{ended.Load(), returned.Load()})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			assert.NoError(t, l.Engine.Flush(ctx))
			_, err := l.Wait(ctx, 2, time.Time{})
			assert.NoError(t, err, "callers are served")
			time.Sleep(time.Minute)
		})
	}
}

// TestDetached_CallPanics_PanicsInItsCaller if no context can end the call: it then runs on the
// caller's goroutine.
func TestDetached_CallPanics_PanicsInItsCaller(t *testing.T) {
	assert.PanicsWithValue(t, "broken", func() {
		_, _ = Detach(context.Background(), func(context.Context) (int, error) { panic("broken") })
	})
}

func TestDetached_CallEndsItsGoroutine_ReturnsAnError(t *testing.T) {
	_, err := Detach(t.Context(), func(context.Context) (int, error) {
		runtime.Goexit()
		return 1, nil
	})
	assert.ErrorIs(t, err, redisx.ErrNoReply)
}

// TestDetached_ContextEnds_ReturnsAtOnce while the call goes on with a context that closes no
// connection.
func TestDetached_ContextEnds_ReturnsAtOnce(t *testing.T) {
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
