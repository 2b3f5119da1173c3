package rulefile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
			continue // it changes all the time
		}
		require.Len(t, files, 2)
		if whole++; string(files[0].Data) != string(files[1].Data) {
			torn++
		}
	}
	assert.Zero(t, torn, "of %d", whole)
	assert.NotZero(t, whole)
}

// TestUnreadable_ErrorOfTheFileSystem_IsWrapped without the path that the problem has already.
func TestUnreadable_ErrorOfTheFileSystem_IsWrapped(t *testing.T) {
	problem := unreadable("f", &fs.PathError{Op: "open", Path: "f", Err: fs.ErrPermission})
	assert.Equal(t, "f: cannot be read: permission denied", problem.Error())
	assert.ErrorIs(t, problem.Err, fs.ErrPermission)
}

func TestRead_LargeFile_IsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.yaml")
	require.NoError(t, os.WriteFile(path, []byte("domain: edge\n"), 0o600))
	require.NoError(t, os.Truncate(path, 100<<20))
	for _, path := range []string{path, filepath.Dir(path)} {
		_, problem := Read(path, func(fs.DirEntry) bool { return true })
		require.NotNil(t, problem)
		assert.Contains(t, problem.Error(), "large.yaml: it has 104857600 bytes, want at most 16777216 (16 MiB)")
	}
}
