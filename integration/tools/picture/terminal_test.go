package picture

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Words keep their columns, and blocks are rectangles.
func TestTerminal_Styles_AreDrawn(t *testing.T) {
	text := Terminal([]string{"\x1b[1ma & b\x1b[0m  c", "", " \x1b[32m██▄\x1b[0m░\x1b[K"})
	lines := strings.Split(text, "\n")
	assert.Equal(t, []string{
		`<text x="14" y="27" fill="#e6edf3" font-weight="bold">a &amp; b</text>`,
		`<text x="70" y="27" fill="#e6edf3">c</text>`,
		`<rect x="22" y="48" width="16" height="17" fill="#3fb950"/>`,
		`<rect x="38" y="56.5" width="8" height="8.5" fill="#3fb950"/>`,
		`<rect x="46" y="48" width="8" height="17" fill="#e6edf3" opacity="0.25"/>`, "</svg>",
	}, lines[3:len(lines)-1])
	assert.Contains(t, text, `viewBox="0 0 92 79"`)
}
