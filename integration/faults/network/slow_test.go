package network_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A slow link whose delay changes from packet to packet: everything takes longer and nothing fails
// but for impatience.
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

// A link so slow that most callers have gone before their answer arrives: what it brings them goes
// back.
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
