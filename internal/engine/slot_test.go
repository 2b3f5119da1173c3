package engine

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

func TestSlot_CallerLeaves_NoGoroutineOutlivesTheLastCommand(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(10, time.Hour)
		var last atomic.Int64
		f.Redis.Server().SetPreHook(func(p *server.Peer, command string, _ ...string) bool {
			if !strings.EqualFold(command, "EVALSHA") {
				return false
			}
			last.Store(time.Now().UnixNano())
			p.WriteError(moving)
			return true
		})
		ctx, cancel := context.WithTimeout(t.Context(), 128*time.Millisecond)
		defer cancel()
		_, err := l.TryAcquire(ctx, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Until(time.Unix(0, last.Load()).Add(101 * time.Millisecond)))
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		assert.NotContains(t, string(stacks), "redisx.Retry")
	})
}

// TestSlot_Moves_CallIsRepeated: no script ran, so a retry is safe. Grants and denials have the time of
// the retry, and each call is reported once.
func TestSlot_Moves_CallIsRepeated(t *testing.T) {
	observed(t, Settings{Denials: time.Hour}, 10, time.Hour, func(ctx context.Context, f *fixture, l *fake, o *events) {
		start := time.Now()
		f.moveSlot()
		f.RequireTrue(l.TryAcquire(ctx, 10))
		took := time.Since(start)
		assert.Less(t, took, 200*time.Millisecond)
		_, calls, _ := o.all()
		assert.Equal(t, []Call{{Limiter: &l.Limiter, Requests: 1, Permits: 10, Took: took}}, calls)
		returns := time.Now().Add(time.Hour - trip)
		f.moveSlot()
		f.RequireFalse(l.TryAcquire(ctx, 1))
		time.Sleep(time.Second)
		denied, err := l.Take(ctx, 1)
		require.NoError(t, err)
		assert.Equal(t, FromMemory, denied.From)
		assert.Equal(t, time.Until(returns), denied.RetryAfter)
		time.Sleep(denied.RetryAfter)
		f.RequireTrue(l.TryAcquire(ctx, 10))
	})
}

func TestSlot_KeepsMoving_FailsAfterAQuarterOfASecond(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(10, time.Hour)
		f.fail(moving)
		for name, call := range map[string]func() error{
			"TryAcquire": func() error { return redistest.Err(l.TryAcquire(t.Context(), 1)) },
			"Release":    func() error { return l.Release(t.Context(), 1) },
		} {
			start := time.Now()
			assert.ErrorContains(t, call(), "TRYAGAIN")
			assert.Equal(t, 255*time.Millisecond, time.Since(start), name)
		}
		f.fail("")
	})
}
