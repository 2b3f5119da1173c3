// Package screen draws lines of styled text and plots on a terminal.
package screen

import (
	"io"
	"math"
	"os"
	"regexp"
	"strings"

	"golang.org/x/term"
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

// blocks are eighths of a cell, from below.
var blocks = []rune(" ▁▂▃▄▅▆▇█")

// Plot draws shares from 0 to 1 as columns, the newest at the right. It draws shares above 1 as 1 and NaN
// as a gap.
func Plot(shares []float64, width, height int) []string {
	shares = shares[max(0, len(shares)-width):]
	rows := make([]string, height)
	for row := range rows {
		above := height - 1 - row // rows below this one
		var line strings.Builder
		line.WriteString(strings.Repeat(" ", width-len(shares)))
		for _, share := range shares {
			eighths := 0
			if !math.IsNaN(share) {
				eighths = int(math.Round(min(1, max(0, share)) * float64(8*height)))
				if share > 0 && eighths == 0 {
					eighths = 1 // a small share stays visible
				}
			}
			line.WriteString(Level(share).Text(string(blocks[min(8, max(0, eighths-8*above))])))
		}
		rows[row] = line.String()
	}
	return rows
}

// Bar draws a share as a row.
func Bar(share float64, width int) string {
	full := int(math.Round(min(1, max(0, share)) * float64(width)))
	return Level(share).Text(strings.Repeat("█", full) + strings.Repeat("░", width-full))
}

// Level returns the style of a share.
func Level(share float64) Style {
	switch {
	case share >= 1:
		return Bad
	case share >= 0.8:
		return Warn
	}
	return Good
}

// Terminal draws lines on a terminal. Close restores the previous content.
type Terminal struct{ out *os.File }

// CanDraw reports whether w is a terminal that supports control sequences.
func CanDraw(w any) bool { return IsTerminal(w) && os.Getenv("TERM") != "dumb" }

// IsTerminal reports whether w is a terminal.
func IsTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Columns returns the width of a terminal, 0 if w is none.
func Columns(w any) int {
	if !IsTerminal(w) {
		return 0
	}
	columns, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// OpenTerminal switches to the terminal's alternate screen without a cursor.
func OpenTerminal(out *os.File) (*Terminal, error) {
	_, err := io.WriteString(out, "\x1b[?1049h\x1b[?25l")
	return &Terminal{out}, err
}

// Size returns the present size.
func (t *Terminal) Size() (width, height int) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// color matches the beginning of a style with a color.
var color = regexp.MustCompile(`\x1b\[3[0-9]m`)

// Draw shows lines over the previous ones.
func (t *Terminal) Draw(lines []string) error {
	const rest = end + "\x1b[K" // of a line
	text := "\x1b[H" + strings.Join(lines, rest+"\r\n") + rest + "\x1b[J"
	if os.Getenv("NO_COLOR") != "" {
		text = color.ReplaceAllString(text, "")
	}
	_, err := io.WriteString(t.out, text)
	return err
}

// Close restores the terminal.
func (t *Terminal) Close() error {
	_, err := io.WriteString(t.out, "\x1b[0m\x1b[?25h\x1b[?1049l")
	return err
}
