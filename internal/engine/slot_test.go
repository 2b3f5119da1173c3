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

// TestSlot_Moves_CallIsRepeated: no script ran, so a retry is safe. The grant has the time of the
// retry.
func TestSlot_Moves_CallIsRepeated(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.limiter(10, time.Hour)
		f.fail(moving)
		time.AfterFunc(100*time.Millisecond, func() { f.fail("") })
		start := time.Now()
		f.RequireGranted(l, 10)
		assert.Less(t, time.Since(start), 200*time.Millisecond)
		time.Sleep(time.Hour - time.Since(start))
		f.RequireDenied(l, 1)
		time.Sleep(200 * time.Millisecond)
		f.RequireGranted(l, 10)
	})
}

func TestSlot_Moves_DenialCountsFromTheRetry(t *testing.T) {
	withServer(t, func(t *testing.T, f *fixture) {
		l := f.open(Settings{Denials: time.Hour}, 10, time.Hour)
		start := time.Now()
		f.RequireGranted(l, 10)
		f.fail(moving)
		time.AfterFunc(100*time.Millisecond, func() { f.fail("") })
		f.RequireDenied(l, 1)
		time.Sleep(time.Second)
		d, denied := f.fromMemory(l, 1)
		assert.True(t, denied)
		assert.Equal(t, time.Hour-time.Since(start), d.RetryAfter)
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
