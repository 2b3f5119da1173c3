package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/screen"
	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// pty is a terminal that shows the output and accepts input.
type pty struct {
	keyboard, tty *os.File
	redistest.Log // what it shows
	ended         chan struct{}
}

func openPTY(t *testing.T, columns, rows uint16) *pty {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	p := &pty{keyboard: keyboard, tty: tty, ended: make(chan struct{})}
	p.resize(t, columns, rows)
	go func() {
		defer close(p.ended)
		_, _ = io.Copy(&p.Log, keyboard) // until it is closed
	}()
	t.Cleanup(func() {
		_, _ = keyboard.WriteString("q\n") // ends the reading that the end of a process would
		tty.Close()
		keyboard.Close()
		<-p.ended
	})
	return p
}

func (p *pty) resize(t *testing.T, columns, rows uint16) {
	t.Helper()
	require.NoError(t, unix.IoctlSetWinsize(int(p.tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows}))
}

// start runs the tool on the terminal.
func (p *pty) start(ctx context.Context, args ...string) <-chan int {
	code := make(chan int, 1)
	go func() { code <- runTool(ctx, args, p.tty, p.tty) }()
	return code
}

// TestWatch_End_RestoresTheTerminal: it follows the terminal's size and fits into 20 columns.
func TestWatch_End_RestoresTheTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	s := startRedis(t)
	zoo(s)
	p := openPTY(t, 20, 10)
	ctx, cancel := context.WithCancel(context.Background())
	code := p.start(ctx, "watch", "paid-api", "--every", "50ms", "--redis", s.url())
	p.Await(t, "taken 100 of 100")
	require.True(t, strings.HasPrefix(p.String(), "\x1b[?1049h\x1b[?25l"), "it takes the other screen, without a cursor")
	p.resize(t, 100, 30)
	p.Await(t, "Ctrl-C quits.")
	cancel() // as a signal does in Main
	require.Equal(t, exitDone, <-code)
	p.Await(t, "\x1b[?25h\x1b[?1049l")
	require.True(t, strings.HasSuffix(p.String(), "\x1b[0m\x1b[?25h\x1b[?1049l"))
}

// A terminal that cannot move its cursor gets lines, and no control sequence.
func TestWatch_DumbTerminal_WritesLines(t *testing.T) {
	t.Setenv("TERM", "dumb")
	s := startRedis(t)
	zoo(s)
	for command, want := range map[string]string{
		"watch paid-api": `paid-api "OVERALL 100/1h" taken=`, "demo": `login:ada "fixed_window/8s" taken=`,
	} {
		p := openPTY(t, 80, 24)
		args := append(strings.Fields(command), "--count", "2", "--every", "50ms", "--redis", s.url())
		require.Equal(t, exitDone, <-p.start(context.Background(), args...))
		p.Await(t, want)
		p.Await(t, want)
		require.NotContains(t, p.String(), "\x1b")
	}
	report, _ := (&app{err: openPTY(t, 80, 24).tty}).progress()
	require.Nil(t, report, "progress overwrites its line")
}

// TestWatch_NoRedis_ErrorStaysOnTheScreen: not on the alternate screen.
func TestWatch_NoRedis_ErrorStaysOnTheScreen(t *testing.T) {
	p := openPTY(t, 80, 24)
	require.Equal(t, exitError, <-p.start(context.Background(), "watch", "x", "--redis", "redis://127.0.0.1:1"))
	p.Await(t, "connection refused")
	require.NotContains(t, p.String(), "\x1b[?1049h")
}

func TestList_NarrowTerminal_WritesLines(t *testing.T) {
	s := startRedis(t)
	zoo(s)
	p := openPTY(t, 20, 10)
	require.Equal(t, exitDone, <-p.start(context.Background(), "ls", "paid*", "--redis", s.url()))
	p.Await(t, "expires never")
	require.Contains(t, p.String(), "paid-api\r\n  kind OVERALL\r\n  rate 100/1h\r\n  taken 100\r\n")
	require.Equal(t, 20, screen.Columns(p.tty))
}

// TestProgress_Terminal_IsShownAndRemoved: in one line of the terminal. Otherwise it is silent.
func TestProgress_Terminal_IsShownAndRemoved(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for columns, want := range map[uint16]string{80: "redis.example.com: 4 keys", 20: "redis.example.com:…"} {
		p := openPTY(t, columns, 24)
		report, done := (&app{err: p.tty}).progress()
		require.Eventually(t, func() bool {
			report("redis.example.com", 4)
			return strings.Contains(p.String(), "\r\x1b[K")
		}, 30*time.Second, 10*time.Millisecond)
		done()
		p.Await(t, "\r\x1b[K"+want+"\r\x1b[K")
	}

	report, done := (&app{err: new(bytes.Buffer)}).progress()
	require.Nil(t, report)
	done()
}
