package guardtest

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestPage checks that each line of the code of a page runs in the examples of a file. The code is
// the block of Go that begins with a text.
func TestPage(t *testing.T, page, begin, examples string) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	runs, err := os.ReadFile(examples)
	require.NoError(t, err)
	_, code, found := strings.Cut(string(text), "```go\n"+begin)
	require.True(t, found)
	code, _, _ = strings.Cut(begin+code, "```")
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "return err" {
			assert.Contains(t, string(runs), line)
		}
	}
}
