package rulefile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The path leads to a file or a directory, or through links that form a circle or lead nowhere.
func TestWatchedDirs_Links_IncludesTheirDirectories(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	dirs := func(dirs ...string) map[string]bool {
		all := make(map[string]bool)
		for _, dir := range dirs {
			all[dir] = true
		}
		return all
	}
	current := filepath.Join(base, "current")
	require.NoError(t, os.Symlink("v1", current))
	assert.Equal(t, dirs(base, filepath.Join(base, "v1")), watchedDirs(filepath.Join(current, "rules.yaml")))
	circle := filepath.Join(base, "circle")
	require.NoError(t, os.Symlink("./circle", circle))
	assert.Equal(t, dirs(base), watchedDirs(circle))
	assert.Equal(t, dirs(filepath.Join(base, "no", "where")),
		watchedDirs(filepath.Join(base, "no", "where", "rules.yaml")))
	far := filepath.Join(base, "far")
	require.NoError(t, os.Symlink(filepath.Join(base, "no", "rules.yaml"), far))
	assert.Equal(t, dirs(base, filepath.Join(base, "no")), watchedDirs(far))
	assert.Equal(t, dirs(filepath.Dir(base), base), watchedDirs(base))
}
