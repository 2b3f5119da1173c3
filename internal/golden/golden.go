// Package golden compares the results of tests with files that people read. The flag -update writes
// the files.
package golden

import (
	"flag"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the files that golden tests compare")

// File checks that a file has this text.
func File(t testing.TB, file, text string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), text, "%s differs: run the test with -update to write it", file)
}

// Blocks checks the blocks of a page that match a pattern, and returns their number. answer returns
// the text of a block that has these submatches.
func Blocks(t testing.TB, page string, block *regexp.Regexp, answer func(parts []string) string) (blocks int) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	shown := block.ReplaceAllStringFunc(string(text), func(found string) string {
		blocks++
		answered := answer(block.FindStringSubmatch(found))
		if !*update {
			assert.Equal(t, found, answered, "%s differs: run the test with -update to write it", page)
		}
		return answered
	})
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(shown), 0o644))
	}
	return blocks
}
