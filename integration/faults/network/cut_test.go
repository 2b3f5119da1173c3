package network_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Connections that are reset again and again while calls are under way.
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

// A network that is gone for a while: nothing listens, then it is back.
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

// Connections end in the middle of what Redis sends. Replies are lost though the calls were carried
// out, and no caller knows which.
func TestNetwork_ReplyCutShort_NoPermitIsLost(t *testing.T) {
	l := newLink(t, manyConnections)
	l.proxy.Disturb(t, "limit_data", "downstream", `"bytes": 1500`)
	l.load(500*time.Millisecond, func() { time.Sleep(3 * time.Second) })
	kinds := l.end(t, "connections end after 1500 bytes of replies")
	require.Positive(t, kinds["cut"])
}
