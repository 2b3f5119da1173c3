package servers

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSentinel_MasterKilled_FailsOver(t *testing.T) {
	s := NewSentinel(t)
	require.Len(t, s.Addrs(), sentinels)
	require.Len(t, s.Servers(), 1+sentinelReplicas)
	master, err := s.Master(t.Context())
	require.NoError(t, err)
	require.Equal(t, "OK", text(t, master, "SET", "k", "v"))

	// A failover, and the old master's return.
	killed := time.Now()
	require.NoError(t, master.Kill())
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	for {
		now, err := s.Master(ctx)
		require.NoError(t, err)
		if now != master {
			break
		}
		require.True(t, pause(ctx), "no failover")
	}
	t.Logf("failed over after %v", time.Since(killed))
	require.NoError(t, master.Restart())
	require.NoError(t, s.AwaitHealthy(ctx))
	t.Logf("healthy after %v", time.Since(killed))
	require.Equal(t, "v", text(t, master, "GET", "k"), "the old master has the new one's data")
}

func TestOpenSentinel_Close_EndsEveryServer(t *testing.T) {
	s, err := OpenSentinel(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for _, server := range append(s.Servers(), s.Sentinels()...) {
		require.False(t, server.Running())
	}
	require.NoDirExists(t, s.ownsDir)
}
