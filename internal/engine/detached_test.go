package engine

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/rratelimiter/rratelimiter/internal/redisx"
)

// TestDetached_CallPanics_PanicsInItsCaller if no context can end the call: it then runs on the caller's goroutine.
func TestDetached_CallPanics_PanicsInItsCaller(t *testing.T) {
	assert.PanicsWithValue(t, "broken", func() {
		_, _ = Detached(context.Background(), func(context.Context) (int, error) { panic("broken") })
	})
}

func TestDetached_CallEndsItsGoroutine_ReturnsAnError(t *testing.T) {
	_, err := Detached(t.Context(), func(context.Context) (int, error) {
		runtime.Goexit()
		return 1, nil
	})
	assert.ErrorIs(t, err, redisx.ErrNoReply)
}

// TestDetached_ContextEnds_ReturnsAtOnce while the call goes on with a context that closes no connection.
func TestDetached_ContextEnds_ReturnsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), second/2)
		defer cancel()
		var ended atomic.Bool
		_, err := Detached(ctx, func(ctx context.Context) (int, error) {
			_, limited := ctx.Deadline()
			assert.False(t, limited, "rueidis would answer the deadline by closing a connection that others use")
			assert.Nil(t, ctx.Done())
			pass(second)
			ended.Store(true)
			return 1, nil
		})
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		pass(second)
		assert.True(t, ended.Load())
		_, err = Detached(ctx, func(context.Context) (int, error) { panic("called") })
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
