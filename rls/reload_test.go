package rls_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
	"github.com/rratelimiter/rratelimiter/rls"
)

// Reload reads the files whether or not they have changed, and reports their problems each time.
func TestReload_UnchangedFiles_AreReadAgain(t *testing.T) {
	client, _ := guardtest.Connect(t)
	var out redistest.Log
	c := rls.Config{Client: client, Path: folder(t, simple), Log: slog.New(slog.NewTextHandler(&out, nil))}
	s, err := rls.New(c)
	require.NoError(t, err)
	before := strings.Count(out.String(), "configuration in force")
	require.NoError(t, s.Reload())
	assert.Equal(t, before+1, strings.Count(out.String(), "configuration in force"))
	require.NoError(t, os.WriteFile(filepath.Join(c.Path, "0.yaml"), []byte("domain: ["), 0o600))
	for range 2 {
		var wrong *rls.ConfigError
		require.ErrorAs(t, s.Reload(), &wrong)
	}
}

func TestServe_ReloadSignal_ReadsTheFilesAgain(t *testing.T) {
	client, _ := guardtest.Connect(t)
	var out redistest.Log
	reload := make(chan os.Signal, 1)
	s := run(t, rls.Config{
		Client: client, Path: folder(t, simple), Log: slog.New(slog.NewTextHandler(&out, nil)), Reload: reload,
	})
	logged := func(text string, n int) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Count(out.String(), text) >= n }, 20*time.Second, time.Millisecond)
	}
	for n := range 3 {
		logged("configuration in force", n+1)
		reload <- syscall.SIGHUP
	}
	logged("configuration in force", 4)
	require.NoError(t, os.WriteFile(filepath.Join(s.Path, "0.yaml"), []byte("domain: ["), 0o600))
	reload <- syscall.SIGHUP
	logged("the configuration is wrong", 1)
	require.NoError(t, s.stop())
}
