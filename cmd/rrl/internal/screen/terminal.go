package screen

import (
	"io"
	"os"
	"regexp"
	"strings"

	"golang.org/x/term"
)

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
