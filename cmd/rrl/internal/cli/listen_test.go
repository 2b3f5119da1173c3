package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListen_UnixSocket_IsForUserAndGroup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := listen(t.Context(), "--http", "unix:"+path)
	require.NoError(t, err)
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	conn.Close()
	require.Equal(t, "unix:"+path, where(l))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|socketMode, info.Mode())
	require.NoError(t, l.Close())
	require.NoFileExists(t, path)
}

// TestListen_PathInUse_IsAnError: the file of another program stays, also a socket of a crash.
func TestListen_PathInUse_IsAnError(t *testing.T) {
	dir := t.TempDir()
	file, live := filepath.Join(dir, "file"), filepath.Join(dir, "live")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	other, err := net.Listen("unix", live)
	require.NoError(t, err)
	defer other.Close()
	for path, want := range map[string]string{
		file: "address already in use", live: "address already in use",
		filepath.Join(dir, strings.Repeat("x", 108)): "invalid argument",
		filepath.Join(dir, "no", "folder"):           "no such file",
	} {
		_, err := listen(t.Context(), "--grpc", "unix:"+path)
		require.ErrorContains(t, err, want, path)
		require.ErrorContains(t, err, "--grpc", path)
	}
	require.FileExists(t, file)
}
