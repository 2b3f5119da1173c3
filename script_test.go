package rratelimiter

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/luanames"
)

var update = flag.Bool("update", false, "write testdata/scripts")

// TestScripts_Assembled_AreGolden: testdata/scripts shows what Redis runs. Write it with -update.
func TestScripts_Assembled_AreGolden(t *testing.T) {
	for name := range scripts {
		file := filepath.Join("testdata", "scripts", name+".lua")
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(scriptText(name)), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Equal(t, string(want), scriptText(name), name)
	}
}

func TestScripts_Names_AreDeclared(t *testing.T) {
	for name := range scripts {
		used, _ := luanames.Find(scriptText(name))
		assert.Empty(t, used, "undeclared names in script %s", name)
	}
	declared := luanames.Declared(scriptSource)
	common := declared["names"].Out
	for name := range scriptParts {
		used, sets := luanames.Find(scriptParts.Text(name))
		used = slices.DeleteFunc(used, func(n string) bool { return slices.Contains(common, n) })
		assert.ElementsMatch(t, used, declared[name].In, "in: of part %s", name)
		assert.Subset(t, append(sets, used...), declared[name].Out, "out: of part %s", name)
	}
	for name, parts := range scripts {
		known := slices.Clone(common)
		for _, part := range parts {
			assert.Subset(t, known, declared[part].In, "part %s of script %s reads what no part before it sets", part, name)
			known = append(known, declared[part].Out...)
		}
	}
}
