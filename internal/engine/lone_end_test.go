package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// explaining is a fake that asks Redis to explain an error of Redis, with a hook that ends the goroutine.
type explaining struct{ *fake }

func (l explaining) Explain(ctx context.Context, err error) error {
	if !errors.Is(err, redisx.ErrNoReply) {
		runtime.Goexit()
	}
	return l.fake.Explain(ctx, err)
}

func TestLoneCall_ExplanationEndsItsGoroutine_NothingIsLeft(t *testing.T) {
	withEngine(t, Settings{}, func(t *testing.T, f *fixture, g *Engine) {
		l := open(g, "limiter", 5, time.Minute)
		l.Protocol = explaining{l}
		f.fail("WRONGTYPE")
		assert.ErrorIs(t, redistest.Err(l.TryAcquire(t.Context(), 1)), redisx.ErrNoReply)
		assert.Zero(t, g.registry.active.counterOf(l.ID).Load()&^crowdedBit)
	})
}

// leaving is a connection that ends a context when it has a reply.
type leaving struct {
	rueidis.Client
	leave context.CancelFunc
}

func (c *leaving) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	defer c.leave()
	return c.Client.Do(ctx, command)
}

func (c *leaving) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	defer c.leave()
	return c.Client.DoMulti(ctx, commands...)
}

// TestLoneCall_ContextEndsWhileTheSlotMoves_ErrorIsOfTheContext: it ends before the caller has left.
func TestLoneCall_ContextEndsWhileTheSlotMoves_ErrorIsOfTheContext(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		conn := &leaving{Client: f.Conn}
		l := f.open(Settings{Redis: conn}, 5, time.Minute)
		f.fail(moving)
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			conn.leave = cancel
			assert.Equal(t, context.Canceled, redistest.Err(l.TryAcquire(ctx, 1)))
			time.Sleep(time.Second)
			synctest.Wait()
		}
	})
}

// TestLoneCall_ContextIsUsedAfterItsCall_IsNoRace: the next call has the same batch.
func TestLoneCall_ContextIsUsedAfterItsCall_IsNoRace(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		conn := &keeping{Client: f.Conn}
		l := f.open(Settings{Redis: conn}, 100, time.Minute)
		f.RequireGranted(l, 1)
		kept := conn.kept[0]
		var hook sync.WaitGroup
		for range 50 {
			hook.Go(func() { assert.NoError(t, kept.Err()) })
			f.RequireGranted(l, 1)
		}
		hook.Wait()
	})
}

// TestLoneCall_CallerLeaves_ReleaseHasItsValues: a hook of rueidis sees for whom the release is.
func TestLoneCall_CallerLeaves_ReleaseHasItsValues(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		conn := &keeping{Client: f.Conn}
		l := f.open(Settings{Redis: conn}, 5, time.Minute)
		f.Latency.Store(int64(trip))
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), callerKey{}, 1), trip/2)
		defer cancel()
		assert.ErrorIs(t, redistest.Err(l.TryAcquire(ctx, 1)), context.DeadlineExceeded)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, conn.kept, 2)
		assert.Equal(t, 1, conn.kept[1].Value(callerKey{}))
		assert.NoError(t, conn.kept[1].Err())
	})
}

// limited is a context with a deadline that does not end.
type limited struct{ context.Context }

func (limited) Done() <-chan struct{}           { return nil }
func (limited) Err() error                      { return nil }
func (limited) Deadline() (_ time.Time, _ bool) { return time.Now().Add(time.Second), true }

// TestLoneCall_DeadlineWithoutAnEnd_IsHidden: rueidis would close the connection then.
func TestLoneCall_DeadlineWithoutAnEnd_IsHidden(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		conn := &keeping{Client: f.Conn}
		require.NoError(t, redistest.Err(f.open(Settings{Redis: conn}, 5, time.Minute).TryAcquire(limited{t.Context()}, 1)))
		_, has := conn.kept[0].Deadline()
		assert.False(t, has)
	})
}
