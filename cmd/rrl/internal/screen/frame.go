// Package screen draws frames of styled text and plots on a terminal.
package screen

import (
	"strings"
	"unicode"

	eastasia "golang.org/x/text/width"
)

// Style is the style of text.
type Style uint8

// Styles.
const (
	Plain Style = iota
	Bold
	Dim
	Good // below the limit
	Warn // near it
	Bad  // at it
)

// Span is text of one style.
type Span struct {
	Text  string
	Style Style
}

// Line is one line of a frame.
type Line []Span

// Frame has the lines of a screen.
type Frame []Line

// Text returns a line of one style.
func Text(text string, style Style) Line { return Line{{text, style}} }

// Cut shortens a frame to a size.
func (f Frame) Cut(width, height int) Frame {
	f = f[:min(len(f), max(0, height))]
	cut := make(Frame, len(f))
	for i, line := range f {
		cut[i] = line.cut(width)
	}
	return cut
}

// cut shortens a line and marks the end with an ellipsis.
func (l Line) cut(width int) Line {
	if l.width() <= width {
		return l
	}
	var kept Line
	rest := width - 1
	for _, span := range l {
		var text strings.Builder
		full := false
		for _, c := range span.Text {
			if full = columnsOf(c) > rest; full {
				break
			}
			text.WriteRune(c)
			rest -= columnsOf(c)
		}
		kept = append(kept, Span{text.String(), span.Style})
		if full {
			break
		}
	}
	if width > 0 {
		kept = append(kept, Span{"…", Dim})
	}
	return kept
}

func (l Line) width() (sum int) {
	for _, span := range l {
		sum += Width(span.Text)
	}
	return sum
}

// Width returns the columns of a text.
func Width(text string) (sum int) {
	for _, c := range text {
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

// String returns the frame without styles.
func (f Frame) String() string {
	var all strings.Builder
	for _, line := range f {
		var text strings.Builder
		for _, span := range line {
			text.WriteString(span.Text)
		}
		all.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
	return all.String()
}

// ANSI returns control sequences that draw the frame over the previous one.
func (f Frame) ANSI(color bool) string {
	codes := map[Style]string{Bold: "1", Dim: "2", Good: "32", Warn: "33", Bad: "31"}
	var all strings.Builder
	all.WriteString("\x1b[H")
	for i, line := range f {
		if i > 0 {
			all.WriteString("\r\n")
		}
		for _, span := range line {
			if code := codes[span.Style]; code != "" && (color || span.Style <= Dim) {
				all.WriteString("\x1b[" + code + "m" + span.Text + "\x1b[0m")
			} else {
				all.WriteString(span.Text)
			}
		}
		all.WriteString("\x1b[K")
	}
	all.WriteString("\x1b[J")
	return all.String()
}
