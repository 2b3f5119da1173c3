package blocks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

// items is a file with a list whose items all begin with the same line.
func items(n int) string {
	var b strings.Builder
	b.WriteString("domain: x\nlist: # of items\n")
	for i := range n {
		fmt.Fprintf(&b, "  - key: tenant\n    value: t%d\n    # - no item\n", i)
	}
	return b.String() + "more: y\n"
}

// TestCut: the pieces are the file, and know their lines.
func TestCut(t *testing.T) {
	text := items(1000)
	parts, ok := Cut([]byte(text), "list")
	require.True(t, ok)
	assert.Equal(t, "domain: x\nlist: # of items\nmore: y\n", parts.Head)
	assert.Greater(t, len(parts.Chunks), 30)
	assert.Less(t, len(parts.Chunks), 120)
	all, line := "", 3
	for _, chunk := range parts.Chunks {
		assert.Equal(t, line, chunk.Line)
		assert.True(t, strings.HasPrefix(chunk.Text, "  - key"))
		all += chunk.Text
		line += strings.Count(chunk.Text, "\n")
	}
	assert.Equal(t, text[len("domain: x\nlist: # of items\n"):len(text)-len("more: y\n")], all)
}

// TestCutWithoutIndent: dashes may stand below their field.
func TestCutWithoutIndent(t *testing.T) {
	parts, ok := Cut([]byte("list:\n- a\n- b\nmore: y\n"), "list")
	require.True(t, ok)
	assert.Equal(t, "list:\nmore: y\n", parts.Head)
}

// TestAround: the list is that of the field, not a text that looks like it.
func TestAround(t *testing.T) {
	for text, want := range map[string]bool{
		"list:\n- a\n- b\nmore: y\n":                         true,
		"more: \"\nlist:\n- a\n\"\n":                         false,
		"list: # x\n  - a\n":                                 true,
		"more: \"\nlist:\n  - a\n \"\nlist:\n":               false,
		"more: |\n x\nlist:\n  - a\n":                        true,
		"{\nlist:\n  - a\n}":                                 false,
		"{\nlist:\n  - a\n,more: y}":                         false,
		"more: \"\nlist:\n  - a\n\"\nx: y\nlist: z\n":        false,
		"more: \"\nlist:\n  - a\n\"\nx: y\n? list\n: null\n": false,
		"list:\n    - a\n  !!null\n":                         false,
		"list:\n    - a\n  &x\nmore: y\n":                    false,
	} {
		parts, ok := Cut([]byte(text), "list")
		require.True(t, ok, text)
		assert.NotContains(t, parts.Head, "- ", text)
		var documents []yaml.Node
		if err := yaml.Load([]byte(parts.Head), &documents, yaml.WithAllDocuments()); err != nil {
			assert.False(t, want, text)
			continue
		}
		assert.Equal(t, want, parts.Around(documents[0].Content[0]), text)
	}
}

// TestAnItemMoreChangesItsChunkAlone, though all items begin alike.
func TestAnItemMoreChangesItsChunkAlone(t *testing.T) {
	before, ok := Cut([]byte(items(1000)), "list")
	require.True(t, ok)
	after, ok := Cut([]byte(strings.Replace(items(1000), "  - key: tenant\n    value: t500\n", "  - key: new\n  - key: tenant\n    value: t500\n", 1)), "list")
	require.True(t, ok)
	had := make(map[string]bool)
	for _, chunk := range before.Chunks {
		had[chunk.Text] = true
	}
	changed := 0
	for _, chunk := range after.Chunks {
		if !had[chunk.Text] {
			changed++
		}
	}
	assert.Positive(t, changed)
	assert.Less(t, changed, 4)
}

// TestNothingToCut: where the list is not below its field, in blocks.
func TestNothingToCut(t *testing.T) {
	for _, text := range []string{"", "a: b", "list: []\n", "list:\n", "list:\n  a: b\n", "lists:\n  - a\n", " list:\n  - a\n", "list: x\n  - a\n", "list:#x\n  - a\n", "list:\n  x\n  - a\n",
		// Lines that end in other ways, where "more" is more than y, or the list stands in a text, or what is no YAML seems to be.
		"list: # x\rmore: y\n  - a\n", "list: # x\u0085more: y\n  - a\n", "list: # x\u2028more: y\n  - a\n", "list: # x\u2029more: y\n  - a\n",
		"\r\rlist:\nmore: \"\nlist:\n- a\n\"\n", "list:\n  - a\r...\n  - b\n",
		"\xff\xfe#\x00 \nlist:\n- a\n\x00l\x00i\x00s\x00t\x00:\x00", // a list in a comment in UTF-16
	} {
		_, ok := Cut([]byte(text), "list")
		assert.False(t, ok, text)
	}
}
