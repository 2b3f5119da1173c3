package rules

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/rulefile"
)

func TestLoad_Files_AreReadOrReported(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	_, err := Load(path)
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.ErrorContains(t, err, path+": cannot be read: no such file or directory")
	_, err = Load(dir)
	assert.ErrorContains(t, err, dir+": it is a directory, want a file")
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err = Load(pipe)
	assert.ErrorContains(t, err, "it is no regular file")
	// 100 MB that are not there: a file with a hole.
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, 100<<20))
	_, err = Load(path)
	assert.ErrorContains(t, err, "it has 104857600 bytes, want at most 16777216 (16 MiB)")
	_, err = Parse("x", make([]byte, rulefile.MostBytes+1))
	assert.ErrorContains(t, err, "want at most")
	require.NoError(t, os.WriteFile(path, []byte("rules: []"), 0o600))
	s, err := Load(path)
	require.NoError(t, err)
	assert.Zero(t, s.Len())
}

// Root may read everything, so the error comes from a loop of links.
func TestLoad_UnreadableFile_WrapsTheError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "loop")
	require.NoError(t, os.Symlink(path, path))
	_, err := Load(path)
	assert.ErrorIs(t, err, syscall.ELOOP)
}
