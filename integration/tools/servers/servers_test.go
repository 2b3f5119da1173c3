package servers

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSingle_Paused_CanBeKilled(t *testing.T) {
	s := Single(t)
	require.NoError(t, s.Pause())
	require.NoError(t, s.Kill())
	require.False(t, s.Running())
	require.NoError(t, s.Restart())
	require.NoError(t, s.Pause())
	require.NoError(t, s.Restart())
	require.Equal(t, "PONG", s.Text(t, "PING"))
}

func TestSingle_TestEnds_ServerEnds(t *testing.T) {
	var pid int
	t.Run("started", func(t *testing.T) { pid = Single(t).PID() })
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

func TestOpenSingle_Close_RemovesItsFolder(t *testing.T) {
	s, err := OpenSingle(t.Context())
	require.NoError(t, err)
	require.Equal(t, "PONG", s.Text(t, "PING"))
	require.NoError(t, s.Close())
	require.NoDirExists(t, s.Dir())
	require.False(t, s.Running())
}

func TestOpenSingle_InvalidArgument_ShowsTheLog(t *testing.T) {
	_, err := OpenSingle(t.Context(), "--no-such-option", "1")
	require.ErrorContains(t, err, "no-such-option")
}

func TestOpenSingle_NoServer_NamesThePackage(t *testing.T) {
	t.Setenv("REDIS_SERVER", "no-such-redis-server")
	_, err := OpenSingle(t.Context())
	require.ErrorContains(t, err, "apt-get install redis-server")
}

func TestStart_PortTaken_IsTold(t *testing.T) {
	taken := Single(t)
	late, err := launch(t.TempDir(), taken.Port(), nil)
	require.NoError(t, err)
	require.ErrorIs(t, awaitReply(t.Context(), taken.Port(), late), errPortTaken)
	require.NoError(t, late.kill())
}
