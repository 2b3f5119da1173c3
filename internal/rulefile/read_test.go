package rulefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRead_FolderThatChanges_IsReadAtOneMoment: never some files of a ConfigMap before a change and
// some after it.
func TestRead_FolderThatChanges_IsReadAtOneMoment(t *testing.T) {
	top := t.TempDir()
	version := func(n int) {
		folder := fmt.Sprintf("..%d", n)
		require.NoError(t, os.Mkdir(filepath.Join(top, folder), 0o700))
		for _, name := range []string{"a.yaml", "b.yaml"} {
			require.NoError(t, os.WriteFile(filepath.Join(top, folder, name), fmt.Append(nil, n), 0o600))
		}
		require.NoError(t, os.Symlink(folder, filepath.Join(top, "..tmp")))
		require.NoError(t, os.Rename(filepath.Join(top, "..tmp"), filepath.Join(top, "..data")))
	}
	version(0)
	for _, name := range []string{"a.yaml", "b.yaml"} {
		require.NoError(t, os.Symlink(filepath.Join("..data", name), filepath.Join(top, name)))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range 600 {
			version(n + 1)
		}
	}()
	whole, torn := 0, 0
	for changing := true; changing; {
		select {
		case <-done:
			changing = false
		default:
		}
		files, problem := Read(top, func(e fs.DirEntry) bool { return filepath.Ext(e.Name()) == ".yaml" })
		if problem != nil {
			continue // the folder changes during each read
		}
		require.Len(t, files, 2)
		if whole++; string(files[0].Data) != string(files[1].Data) {
			torn++
		}
	}
	assert.Zero(t, torn, "of %d", whole)
	assert.NotZero(t, whole)
}

func TestRead_WrongFile_ReportsTheReason(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		create func(path string) error
		want   string
		cause  error
	}{
		"missing": {func(string) error { return nil }, "cannot be read: no such file or directory", fs.ErrNotExist},
		"folder":  {func(path string) error { return os.Mkdir(path, 0o700) }, "it is a directory, want a file", nil},
		"pipe":    {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "it is no regular file (p", nil},
		"loop":    {func(path string) error { return os.Symlink(path, path) }, "cannot be read: ", syscall.ELOOP},
		"large": {func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 100<<20)) // a file with a hole
		}, "it has 104857600 bytes, want at most 16777216 (16 MiB)", nil},
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, tt.create(path), name)
		_, problem := Read(path, nil)
		_, inFolder := Read(dir, func(e fs.DirEntry) bool { return e.Name() == name })
		require.NotNil(t, problem, name)
		assert.Contains(t, problem.Error(), path+": "+tt.want)
		assert.ErrorIs(t, problem.Err, tt.cause, name)
		if name != "missing" {
			assert.Equal(t, problem, inFolder)
		}
	}
}
