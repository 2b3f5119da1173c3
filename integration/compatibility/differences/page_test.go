package differences_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The tables of docs/compatibility.md name every test of this folder and of two other files.
func TestCompatibilityPage_Tables_NameEveryTest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "compatibility.md"))
	require.NoError(t, err)
	var named []string
	for _, row := range regexp.MustCompile(`(?m)^\|.*\|$`).FindAllString(string(page), -1) {
		for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(row, -1) {
			named = append(named, name[1])
		}
	}

	files, err := filepath.Glob("*_test.go")
	require.NoError(t, err)
	files = append(files, filepath.Join("..", "sequences", "drift_test.go"),
		filepath.Join("..", "cluster", "crossslot_test.go"))
	var written []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, name := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(string(source), -1) {
			if name[1] != t.Name() {
				written = append(written, name[1])
			}
		}
	}
	require.ElementsMatch(t, written, named)
}
