package screen

import (
	"errors"
	"io"
	"os"

	"golang.org/x/term"
)

// Terminal draws frames on a terminal and reads its keys. Close restores the previous content and modes.
type Terminal struct {
	out   *os.File
	color bool

	in     *os.File
	before *term.State // of in; nil if in is no terminal
	quit   chan struct{}
}

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

// OpenTerminal switches to the terminal's alternate screen without a cursor. It reads keys if in is a
// terminal.
func OpenTerminal(in io.Reader, out *os.File) (*Terminal, error) {
	t := &Terminal{out: out, color: os.Getenv("NO_COLOR") == "", quit: make(chan struct{})}
	if IsTerminal(in) {
		var err error
		t.in, _ = in.(*os.File)
		if t.before, err = term.MakeRaw(int(t.in.Fd())); err != nil {
			return nil, err
		}
		go t.readKeys()
	}
	_, err := io.WriteString(out, "\x1b[?1049h\x1b[?25l")
	return t, err
}

// Quit returns a channel that is closed when the user presses q or Ctrl-C.
func (t *Terminal) Quit() <-chan struct{} { return t.quit }

// readKeys closes quit at the first key that quits. In raw mode, Ctrl-C is a key. Nothing ends the
// reading before, as long as the process lives.
func (t *Terminal) readKeys() {
	key := make([]byte, 1)
	for {
		switch _, err := t.in.Read(key); {
		case err != nil:
			return
		case key[0] == 'q' || key[0] == 'Q' || key[0] == ctrlC:
			close(t.quit)
			return
		}
	}
}

const ctrlC = 0x03

// Size returns the present size.
func (t *Terminal) Size() (width, height int) {
	width, height, err := term.GetSize(int(t.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// Draw shows a frame.
func (t *Terminal) Draw(f Frame) error {
	_, err := io.WriteString(t.out, f.ANSI(t.color))
	return err
}

// Close restores the terminal.
func (t *Terminal) Close() error {
	_, err := io.WriteString(t.out, "\x1b[0m\x1b[?25h\x1b[?1049l")
	if t.before != nil {
		err = errors.Join(err, term.Restore(int(t.in.Fd()), t.before))
	}
	return err
}
