package rulefile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPlacesOf_Links_IncludesTheirDirectories: that of the file behind a link, and links that lead in a circle, or nowhere.
func TestPlacesOf_Links_IncludesTheirDirectories(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	current := filepath.Join(base, "current")
	require.NoError(t, os.Symlink("v1", current))
	assert.Equal(t, []string{base, filepath.Join(base, "v1")}, placesOf(filepath.Join(current, "rules.yaml")))
	circle := filepath.Join(base, "circle")
	require.NoError(t, os.Symlink("./circle", circle))
	assert.Equal(t, []string{base}, placesOf(circle))
	assert.Equal(t, []string{filepath.Join(base, "no", "where")},
		placesOf(filepath.Join(base, "no", "where", "rules.yaml")))
	far := filepath.Join(base, "far")
	require.NoError(t, os.Symlink(filepath.Join(base, "no", "rules.yaml"), far))
	assert.Equal(t, []string{base, filepath.Join(base, "no")}, placesOf(far))
}
