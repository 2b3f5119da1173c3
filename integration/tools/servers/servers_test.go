package servers

import (
	"context"
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
	t.Setenv("REDIS_CONTAINER", "")
	t.Setenv("REDIS_SERVER", "no-such-redis-server")
	_, err := OpenSingle(t.Context())
	require.ErrorContains(t, err, "apt-get install redis-server")
}

// A port that was free when it was chosen and taken when it was bound is given up for another one.
func TestStartServer_PortTaken_UsesAnother(t *testing.T) {
	taken := Single(t)
	l := &unlucky{launcher: launcherFromEnv(), taken: taken.Port()}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := startServer(ctx, l, t.TempDir(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { closeAndReport(t, s) })
	require.Equal(t, 2, l.launched)
	require.NotEqual(t, taken.Port(), s.Port())
	require.Equal(t, "PONG", s.Text(t, "PING"))
}

// unlucky launches its first server on a port that is taken.
type unlucky struct {
	launcher
	taken    int
	launched int
}

func (u *unlucky) launch(dir string, port int, args []string) (instance, error) {
	u.launched++
	if u.launched == 1 {
		port = u.taken
	}
	return u.launcher.launch(dir, port, args)
}
