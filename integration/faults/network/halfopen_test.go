package network_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Connections look open while nothing passes, as after a firewall has dropped their state. Calls
// end with their contexts. Once the link works again, the connections that were given up are
// replaced.
func TestNetwork_HalfOpenConnection_IsGivenUp(t *testing.T) {
	l := newLink(t, manyConnections)
	l.load(500*time.Millisecond, func() {
		for range 2 {
			time.Sleep(time.Second)
			restoreUp := l.proxy.Disturb(t, "timeout", "upstream", `"timeout": 0`)
			restoreDown := l.proxy.Disturb(t, "timeout", "downstream", `"timeout": 0`)
			time.Sleep(givenUp + time.Second)
			restoreUp()
			restoreDown()
		}
		time.Sleep(2 * time.Second)
	})
	kinds := l.end(t, "half-open connections, twice for 3 s")
	require.Positive(t, kinds["deadline"])
}

// Without a deadline a call waits for as long as rueidis waits for a connection, and then says so.
func TestNetwork_HalfOpenWithoutDeadline_IsGivenUp(t *testing.T) {
	l := newLink(t, manyConnections)
	l.proxy.Disturb(t, "timeout", "upstream", `"timeout": 0`)
	for _, call := range []func() (bool, error){
		func() (bool, error) { return l.limiter.TryAcquire(context.Background(), 1) },
		func() (bool, error) { err := l.limiter.Acquire(context.Background(), 1); return err == nil, err },
		func() (bool, error) { return l.limiter.TryAcquireWithin(context.Background(), 1, 50*time.Millisecond) },
	} {
		start := time.Now()
		granted, err := l.books.Time("go", 1, call)
		require.Error(t, err)
		require.False(t, granted)
		t.Logf("%v after %v", err, time.Since(start).Round(time.Millisecond))
		require.Less(t, time.Since(start), 3*givenUp)
	}
	l.end(t, "half-open connection, no deadline")
}
