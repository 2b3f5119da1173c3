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
		c := &deadline{Context: parent, moment: &moment{at: time.Now().Add(patience)}}
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

		c = &deadline{Context: parent, moment: &moment{at: time.Now().Add(patience)}}
		done := c.Done()
		end()
		synctest.Wait()
		<-done
		assert.ErrorIs(t, c.Err(), context.Canceled)

		c = &deadline{Context: t.Context(), moment: &moment{at: time.Now().Add(patience)}}
		done = c.Done()
		c.stop()
		<-done
		assert.ErrorIs(t, c.Err(), context.Canceled, "it keeps no timer")

		sooner, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		at, _ = (&deadline{Context: sooner, moment: &moment{at: time.Now().Add(patience)}}).Deadline()
		assert.Equal(t, time.Now().Add(time.Millisecond), at)
	})
}

// Who waits by Ends is told in time, and as whoever waits by Done; requests that come together share their deadline.
func TestDeadlinesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := moments{patience: patience}
		first := &deadline{Context: t.Context(), moment: s.next()}
		assert.Equal(t, time.Now().Add(patience), first.at)
		time.Sleep(patience/sharing - 1)
		assert.Same(t, first.moment, s.next())
		time.Sleep(time.Nanosecond)
		second := &deadline{Context: t.Context(), moment: s.next()}
		assert.Equal(t, time.Now().Add(patience), second.at, "no request loses more of its patience")

		gone, late := first.Ends()
		_, later := second.Ends()
		assert.Nil(t, first.timed, "a timer of its own")
		time.Sleep(time.Until(first.at) - 1)
		synctest.Wait()
		select {
		case <-late:
			t.Error("it came too early")
		case <-gone:
			t.Error("the request has not ended")
		default:
		}
		require.NoError(t, first.Err())
		time.Sleep(time.Nanosecond)
		<-late
		assert.ErrorIs(t, first.Err(), context.DeadlineExceeded)
		require.NoError(t, second.Err())
		<-later
		assert.ErrorIs(t, second.Err(), context.DeadlineExceeded)

		parent, end := context.WithCancel(t.Context())
		gone, _ = (&deadline{Context: parent, moment: s.next()}).Ends()
		end()
		<-gone
	})
}
