// Package screen draws lines of styled text and plots on a terminal.
package screen

import (
	"regexp"
	"strings"
	"unicode"

	eastasia "golang.org/x/text/width"
)

// Style is the parameter of the control sequence that begins a style.
type Style string

// Styles.
const (
	Bold Style = "1"
	Dim  Style = "2"
	Good Style = "32" // below the limit
	Warn Style = "33" // near it
	Bad  Style = "31" // at it
)

const end = "\x1b[0m"

// Text returns a text in the style.
func (s Style) Text(text string) string { return "\x1b[" + string(s) + "m" + text + end }

var (
	sequence = regexp.MustCompile(`\x1b\[[0-9]+m`)
	part     = regexp.MustCompile(sequence.String() + `|(?s:.)`)
)

// Plain returns a text without its styles.
func Plain(text string) string { return sequence.ReplaceAllString(text, "") }

// Cut shortens a text to a number of columns and marks its end with an ellipsis.
func Cut(text string, columns int) string {
	switch {
	case columns < 1:
		return ""
	case Width(text) <= columns:
		return text
	}
	var kept strings.Builder
	for _, p := range part.FindAllString(text, -1) {
		if columns -= Width(p); columns < 1 {
			break
		}
		kept.WriteString(p)
	}
	return kept.String() + "…"
}

// Width returns the columns of a text.
func Width(text string) (sum int) {
	for _, c := range Plain(text) {
		sum += columnsOf(c)
	}
	return sum
}

// columnsOf returns the columns of a character: two for a wide one, none for one that combines with
// the previous character.
func columnsOf(c rune) int {
	switch {
	case c < 0x300: // most characters; none of them is wide or combines
		return 1
	case unicode.In(c, unicode.Mn, unicode.Me):
		return 0
	}
	switch eastasia.LookupRune(c).Kind() {
	case eastasia.EastAsianWide, eastasia.EastAsianFullwidth:
		return 2
	}
	return 1
}
