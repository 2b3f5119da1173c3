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

// TestRead_FolderThatChanges_IsReadAtOneMoment: two reads are equal, so that no file of a ConfigMap is of
// before a change and another one of after it.
func TestRead_FolderThatChanges_IsReadAtOneMoment(t *testing.T) {
	for changes, want := range map[int]string{0: "0", 1: "1", 2: "2", 3: "", 9: ""} {
		dir, reads := t.TempDir(), 0
		read := func(fs.DirEntry) bool { // once in each read
			if reads++; reads <= changes+1 {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), fmt.Append(nil, reads-1), 0o600))
			}
			return true
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), nil, 0o600))
		files, problem := Read(dir, read)
		if want == "" {
			assert.ErrorContains(t, problem, "it changes while it is read", changes)
		} else if assert.Nil(t, problem, changes) {
			assert.Equal(t, want, string(files[0].Data))
		}
	}
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
