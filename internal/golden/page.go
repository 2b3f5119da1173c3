package golden

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Text returns the text of a file.
func Text(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// Between returns the part of a text behind begin, which it must have, and before the next end.
func Between(t testing.TB, text, begin, end string) string {
	t.Helper()
	_, part, found := strings.Cut(text, begin)
	require.True(t, found, begin)
	part, _, _ = strings.Cut(part, end)
	return part
}

// Code returns the blocks of a page in a language.
func Code(page, language string) (blocks []string) {
	for _, block := range strings.Split(page, "```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(block, "```")
		blocks = append(blocks, block)
	}
	return blocks
}
