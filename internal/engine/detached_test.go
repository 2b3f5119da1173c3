package engine

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// TestAPanicOfACallThatEndsByItself hurts nobody whose caller has gone; a caller that is there gets it.
func TestAPanicOfACallThatEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context) (int, error) {
			_, limited := ctx.Deadline()
			assert.False(t, limited, "rueidis would answer the deadline by closing a connection that others use")
			assert.Nil(t, ctx.Done())
			pass(second)
			panic("broken")
		}
		gone, cancel := context.WithTimeout(t.Context(), second/2)
		defer cancel()
		_, err := Detached(gone, slow)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		pass(second)
		assert.PanicsWithValue(t, "broken", func() { _, _ = Detached(t.Context(), slow) })
		assert.PanicsWithValue(t, "broken", func() { _, _ = Detached(context.Background(), slow) })
		_, err = Detached(gone, func(context.Context) (int, error) { panic("called") })
		assert.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// TestACallThatEndsItsGoroutine has no result.
func TestACallThatEndsItsGoroutine(t *testing.T) {
	assert.Panics(t, func() {
		_, _ = Detached(t.Context(), func(context.Context) (int, error) {
			runtime.Goexit()
			return 1, nil
		})
	})
}
