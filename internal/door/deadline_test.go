package door

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestADeadlineIsAContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		parent, end := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		c := &deadline{Context: parent, at: time.Now().Add(patience)}
		at, ok := c.Deadline()
		assert.True(t, ok)
		assert.Equal(t, time.Now().Add(patience), at)
		require.NoError(t, c.Err())
		child, stop := context.WithCancel(c)
		defer stop()
		assert.Equal(t, "value", child.Value(key{}))
		time.Sleep(patience)
		synctest.Wait()
		assert.ErrorIs(t, child.Err(), context.DeadlineExceeded)
		assert.ErrorIs(t, c.Err(), context.DeadlineExceeded)
		assert.NoError(t, parent.Err())

		c = &deadline{Context: parent, at: time.Now().Add(patience)}
		done := c.Done()
		end()
		synctest.Wait()
		<-done
		assert.ErrorIs(t, c.Err(), context.Canceled)

		c = &deadline{Context: t.Context(), at: time.Now().Add(patience)}
		done = c.Done()
		c.stop()
		<-done
		assert.ErrorIs(t, c.Err(), context.Canceled, "it keeps no timer")

		sooner, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		at, _ = (&deadline{Context: sooner, at: time.Now().Add(patience)}).Deadline()
		assert.Equal(t, time.Now().Add(time.Millisecond), at)
	})
}
