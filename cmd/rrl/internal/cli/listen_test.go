package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stale leaves a socket on which no process listens.
func stale(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
}

func TestListenGRPC_SocketOfACrash_IsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale(t, path)
	l, err := listenGRPC(t.Context(), "unix:"+path)
	require.NoError(t, err)
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	conn.Close()
	require.Equal(t, "unix:"+path, where(l))
	_, err = listenGRPC(t.Context(), "unix://"+path) // as gRPC writes it
	require.ErrorContains(t, err, "another process listens there")
	require.NoError(t, l.Close())
	require.NoFileExists(t, path)
	require.NoError(t, l.Close(), "it is closed twice: by its server and by Serve")
}

func TestListenGRPC_WhatIsNotItsOwn_Stays(t *testing.T) {
	dir := t.TempDir()
	file, folder, live := filepath.Join(dir, "file"), filepath.Join(dir, "folder"), filepath.Join(dir, "live")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	require.NoError(t, os.Mkdir(folder, 0o700))
	l, err := net.Listen("unix", live)
	require.NoError(t, err)
	defer l.Close()
	link, dangling := filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	require.NoError(t, os.Symlink(live, link))
	require.NoError(t, os.Symlink(filepath.Join(dir, "nothing"), dangling))
	for path, want := range map[string]string{
		file: "not a socket", folder: "not a socket", live: "another process listens there",
		link: "not a socket", dangling: "not a socket",
		"": "want unix:PATH", "@abstract": "want unix:PATH",
		filepath.Join(dir, strings.Repeat("x", 108)): "at most 107 bytes",
		filepath.Join(dir, "no", "folder"):           "no such file",
	} {
		_, err := listenGRPC(t.Context(), "unix:"+path)
		require.ErrorContains(t, err, want, path)
		require.ErrorContains(t, err, "--grpc", path)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 5)
}

// A service that ends leaves the socket that another one has put in the place of its own.
func TestListenGRPC_SocketOfItsSuccessor_Stays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := listenGRPC(t.Context(), "unix:"+path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	second, err := listenGRPC(t.Context(), "unix:"+path)
	require.NoError(t, err)
	require.NoError(t, first.Close())
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	conn.Close()
	require.NoError(t, second.Close())
	require.NoFileExists(t, path)
}
