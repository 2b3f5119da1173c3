package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const models = "../../../model/*.als"

// TestModels_Mistake_IsFound: each model has a deliberate mistake, which Alloy has to find.
func TestModels_Mistake_IsFound(t *testing.T) {
	all, err := filepath.Glob(models)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, model := range all {
		source, err := os.ReadFile(model)
		require.NoError(t, err)
		require.Contains(t, string(source), "\nMistake: check ")
	}
	require.NoError(t, run(t.Context(), "Mistake", all))
}

func TestRun_WithoutTheMistake_IsAnError(t *testing.T) {
	source, err := os.ReadFile("../../../model/waiters.als")
	require.NoError(t, err)
	model := filepath.Join(t.TempDir(), "model.als")
	fixed := strings.Replace(string(source), "some Forgetful implies none -> none", "no Waiter implies none -> none", 1)
	require.NotEqual(t, string(source), fixed)
	fixed = strings.ReplaceAll(fixed, "12 steps", "6 steps")
	require.NoError(t, os.WriteFile(model, []byte(fixed), 0o600))
	require.ErrorContains(t, run(t.Context(), "Mistake", []string{model}), "expectation")
}
