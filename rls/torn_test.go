package rls

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFilesAreReadAtOneMoment: never some of a ConfigMap before a change and some behind it.
func TestFilesAreReadAtOneMoment(t *testing.T) {
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
		files, err := read(top)
		if err != nil {
			continue // it changes all the time
		}
		require.Len(t, files, 2)
		if whole++; string(files[0].text) != string(files[1].text) {
			torn++
		}
	}
	assert.Zero(t, torn, "of %d", whole)
	assert.NotZero(t, whole)
}
