package network_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/tools/everycall"
)

// Connections are reset repeatedly during calls.
func TestNetwork_ConnectionsCut_NoPermitIsLost(t *testing.T) {
	l := newLink(t, manyConnections)
	l.load(500*time.Millisecond, func() {
		for range 20 {
			time.Sleep(200 * time.Millisecond)
			restore := l.proxy.Disturb(t, "reset_peer", "downstream", `"timeout": 0`)
			time.Sleep(50 * time.Millisecond)
			restore()
		}
		time.Sleep(time.Second)
	})
	kinds := l.end(t, "connections reset, 20 times")
	require.Positive(t, kinds["cut"])
}

// The network fails for a while: nothing listens, then it is back.
func TestNetwork_Outage_NoPermitIsLost(t *testing.T) {
	l := newLink(t, manyConnections)
	addr := l.proxy.Listen
	l.load(500*time.Millisecond, func() {
		for range 3 {
			time.Sleep(time.Second)
			l.proxy.Stop()
			time.Sleep(700 * time.Millisecond)
			require.NoError(t, l.proxy.Start())
			require.Equal(t, addr, l.proxy.Listen)
		}
		time.Sleep(time.Second)
	})
	kinds := l.end(t, "network gone, 3 times for 0.7 s")
	require.Positive(t, kinds["cut"]+kinds["refused"])
}

// Connections end in the middle of replies. Replies are lost although the calls took effect.
func TestNetwork_ReplyCutShort_NoPermitIsLost(t *testing.T) {
	l := newLink(t, manyConnections)
	l.proxy.Disturb(t, "limit_data", "downstream", `"bytes": 1500`)
	l.load(500*time.Millisecond, func() { time.Sleep(3 * time.Second) })
	kinds := l.end(t, "connections end after 1500 bytes of replies")
	require.Positive(t, kinds["cut"])
}

// Connections stay open but transfer nothing, as after a firewall has dropped their state. Calls
// end with their contexts. When the link works again, rueidis replaces the connections that it
// closed.
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

// Without a deadline a call fails when rueidis closes its connection.
func TestNetwork_HalfOpenWithoutDeadline_IsGivenUp(t *testing.T) {
	l := newLink(t, manyConnections)
	l.proxy.Disturb(t, "timeout", "upstream", `"timeout": 0`)
	for i := range 4 {
		start := time.Now()
		granted, err := l.books.Time("go", 1, func() (bool, error) {
			return everycall.Acquire(context.Background(), l.limiter, i, 1, 50*time.Millisecond)
		})
		require.Error(t, err)
		require.False(t, granted)
		t.Logf("%v after %v", err, time.Since(start).Round(time.Millisecond))
		require.Less(t, time.Since(start), 3*givenUp)
	}
	l.end(t, "half-open connection, no deadline")
}

// A slow link with jitter: calls take longer and fail only at their deadlines.
func TestNetwork_LatencyAndJitter_NoCallFails(t *testing.T) {
	l := newLink(t, manyConnections)
	l.proxy.Disturb(t, "latency", "upstream", `"latency": 20, "jitter": 15`)
	l.proxy.Disturb(t, "latency", "downstream", `"latency": 40, "jitter": 30`)
	l.load(time.Second, func() { time.Sleep(3 * time.Second) })
	kinds := l.end(t, "latency 60 ms, jitter 45 ms")
	for kind := range kinds {
		require.Contains(t, []string{"deadline", "cancelled"}, kind)
	}
}

// The link is so slow that most callers have gone before their reply. Their permits are released.
func TestNetwork_LateReplies_PermitsAreReleased(t *testing.T) {
	l := newLink(t, manyConnections)
	l.proxy.Disturb(t, "latency", "downstream", `"latency": 300, "jitter": 100`)
	l.load(300*time.Millisecond, func() { time.Sleep(3 * time.Second) })
	kinds := l.end(t, "latency above the callers' timeouts")
	require.Positive(t, kinds["deadline"])
	for kind := range kinds {
		require.Contains(t, []string{"deadline", "cancelled"}, kind)
	}
}
