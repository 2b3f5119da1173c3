// Package alloy tests explore.sh, the script of make model, and the models.
package alloy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/golden"
)

func explore(t *testing.T, models ...string) (output string, err error) {
	script := exec.CommandContext(t.Context(), "sh", append([]string{"explore.sh", "Mistake"}, models...)...)
	text, err := script.CombinedOutput()
	return string(text), err
}

// TestModels_Mistake_IsFound: each model has a deliberate mistake, which Alloy has to find.
func TestModels_Mistake_IsFound(t *testing.T) {
	all, err := filepath.Glob("../../../model/*.als")
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, model := range all {
		source := golden.Text(t, model)
		require.Contains(t, source, "\nMistake: check ")
	}
	output, err := explore(t, all...)
	require.NoError(t, err, output)
}

func TestExplore_WithoutTheMistake_Fails(t *testing.T) {
	source := golden.Text(t, "../../../model/waiters.als")
	model := filepath.Join(t.TempDir(), "model.als")
	fixed := strings.Replace(source, "some Forgetful implies none -> none", "no Waiter implies none -> none", 1)
	require.NotEqual(t, source, fixed)
	fixed = strings.ReplaceAll(fixed, "12 steps", "6 steps")
	require.NoError(t, os.WriteFile(model, []byte(fixed), 0o600))
	output, err := explore(t, model)
	require.Error(t, err)
	require.Contains(t, output, "expectation")
}
