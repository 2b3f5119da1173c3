package rratelimiter

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheReadmeShowsTheExample: each line of its Go code runs in example_test.go.
func TestTheReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, code, found := strings.Cut(string(readme), "```go\n")
	require.True(t, found)
	code, _, _ = strings.Cut(code, "```")
	_, code, found = strings.Cut(code, "}\n") // how to connect is shown there in a comment
	require.True(t, found)
	for line := range strings.Lines(code) {
		assert.Contains(t, string(example), strings.TrimSpace(line))
	}
}
