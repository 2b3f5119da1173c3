package rls_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/rls"
)

// TestLargeFile: it is told how large, and it is not read for that.
func TestLargeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.yaml")
	require.NoError(t, os.WriteFile(path, []byte("domain: edge\n"), 0o600))
	require.NoError(t, os.Truncate(path, 100<<20))
	for _, path := range []string{path, filepath.Dir(path)} {
		_, err := rls.Load(path, false)
		require.ErrorContains(t, err, "large.yaml: it has 104857600 bytes, want at most 16777216 (16 MiB)")
	}
}
