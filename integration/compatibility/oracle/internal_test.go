package oracle

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHashSources_ChangedSource_Differs(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "src", "A.java")
	require.NoError(t, os.MkdirAll(filepath.Dir(source), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pom.xml"), []byte("pom"), 0o600))
	require.NoError(t, os.WriteFile(source, []byte("one"), 0o600))
	one, err := hashSources(dir)
	require.NoError(t, err)
	again, err := hashSources(dir)
	require.NoError(t, err)
	require.Equal(t, one, again)

	require.NoError(t, os.WriteFile(source, []byte("two"), 0o600))
	two, err := hashSources(dir)
	require.NoError(t, err)
	require.NotEqual(t, one, two)

	require.NoError(t, os.Rename(source, filepath.Join(dir, "src", "B.java")))
	renamed, err := hashSources(dir)
	require.NoError(t, err)
	require.NotEqual(t, two, renamed)
}
