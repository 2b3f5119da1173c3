package prefetches_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/integration/faults/outages"
	"github.com/rratelimiter/rratelimiter/integration/tools/proxy"
	"github.com/rratelimiter/rratelimiter/integration/tools/servers"
)

// A server that hangs keeps grants for callers that have gone, and prefetches that have ended when
// their reply arrives.
func TestPrefetch_ServerPaused_KeepsTheRate(t *testing.T) {
	t.Parallel()
	server := servers.Single(t)
	l := start(t, outages.OnSingle(server))
	for range max(1, int(loadTime/(4*time.Second))) {
		time.Sleep(loadTime / 4)
		l.breaks(func() {
			require.NoError(t, server.Pause())
			time.Sleep(1200 * time.Millisecond)
			require.NoError(t, server.Resume())
		})
		time.Sleep(loadTime / 3)
	}
	l.finish()
}

// The server runs calls and their replies are lost with their connections, repeatedly, with a prefetch
// or without.
func TestPrefetch_RepliesLost_KeepsTheRate(t *testing.T) {
	t.Parallel()
	server := servers.Single(t)
	on, disturbed := outages.OnSingle(server), proxy.Start(t, server.Addr())
	on.Redis.InitAddress = []string{disturbed.Listen}
	l := start(t, on)
	l.breaks(func() {
		for began := time.Now(); time.Since(began) < loadTime; {
			restore := disturbed.Disturb(t, "timeout", "downstream", `"timeout": 0`)
			time.Sleep(10 * time.Millisecond)
			restore() // closes the connections
			time.Sleep(250 * time.Millisecond)
		}
	})
	l.finish()
	require.NotEmpty(t, l.goBooks.Failures(), "no reply was lost")
}

// The master is killed with grants that its replicas lack: its last ones, and prefetched permits.
func TestPrefetch_SentinelMasterKilled_BoundsTheLoss(t *testing.T) {
	t.Parallel()
	sentinel := servers.NewSentinel(t)
	l := start(t, outages.OnSentinel(sentinel))
	time.Sleep(loadTime / 3)
	master, err := sentinel.Master(t.Context())
	require.NoError(t, err)
	l.breaks(func() {
		// A replica on this machine is never so far behind.
		l.lostFrom = time.Now().Add(-100 * time.Millisecond)
		require.NoError(t, master.Kill())
		l.lost = time.Now().Add(prefetch)
		sentinel.AwaitOtherMaster(t, master)
	})
	time.Sleep(2 * loadTime / 3)
	l.finish()
}
