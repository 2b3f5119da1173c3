package rulefile

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The path leads to a file or a directory, or through links that form a circle or lead nowhere.
func TestWatchedDirs_Links_IncludesTheirDirectories(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	watches := func(path string, want ...string) {
		assert.ElementsMatch(t, want, slices.Collect(maps.Keys(watchedDirs(path))), path)
	}
	current := filepath.Join(base, "current")
	require.NoError(t, os.Symlink("v1", current))
	watches(filepath.Join(current, "rules.yaml"), base, filepath.Join(base, "v1"))
	circle := filepath.Join(base, "circle")
	require.NoError(t, os.Symlink("./circle", circle))
	watches(circle, base)
	watches(filepath.Join(base, "no", "where", "rules.yaml"), filepath.Join(base, "no", "where"))
	far := filepath.Join(base, "far")
	require.NoError(t, os.Symlink(filepath.Join(base, "no", "rules.yaml"), far))
	watches(far, base, filepath.Join(base, "no"))
	watches(base, filepath.Dir(base), base)
}
