package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rratelimiter/rratelimiter/cmd/rrl/internal/screen"
)

// pty is a terminal that shows the output and accepts input.
type pty struct {
	keyboard, tty *os.File
	mu            sync.Mutex
	seen          bytes.Buffer
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
		buffer := make([]byte, 1<<12)
		for {
			n, err := keyboard.Read(buffer)
			p.mu.Lock()
			p.seen.Write(buffer[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
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

func (p *pty) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.String()
}

// await waits until the terminal has shown a text.
func (p *pty) await(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(p.text(), text) }, 30*time.Second, 5*time.Millisecond,
		"%q is not in %q", text, p.text())
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
	before, err := unix.IoctlGetTermios(int(p.tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	code := p.start(ctx, "watch", "paid-api", "--every", "50ms", "--redis", s.url())
	p.await(t, "taken 100 of 100")
	require.True(t, strings.HasPrefix(p.text(), "\x1b[?1049h\x1b[?25l"), "it takes the other screen, without a cursor")
	p.resize(t, 100, 30)
	p.await(t, "Ctrl-C quits.")
	cancel() // as a signal does in Main
	require.Equal(t, exitDone, <-code)
	p.await(t, "\x1b[?25h\x1b[?1049l")
	require.True(t, strings.HasSuffix(p.text(), "\x1b[0m\x1b[?25h\x1b[?1049l"))
	after, err := unix.IoctlGetTermios(int(p.tty.Fd()), unix.TCGETS)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// A terminal that cannot move its cursor gets lines, and no control sequence.
func TestWatch_DumbTerminal_WritesLines(t *testing.T) {
	t.Setenv("TERM", "dumb")
	s := startRedis(t)
	zoo(s)
	for _, args := range [][]string{{"watch", "paid-api"}, {"demo"}} {
		p := openPTY(t, 80, 24)
		args = append(args, "--count", "2", "--every", "50ms", "--redis", s.url())
		require.Equal(t, exitDone, <-p.start(context.Background(), args...))
		p.await(t, `paid-api "OVERALL 100/1`)
		require.NotContains(t, p.text(), "\x1b")
	}
	report, _ := (&app{err: openPTY(t, 80, 24).tty}).progress()
	require.Nil(t, report, "progress overwrites its line")
}

// TestWatch_NoRedis_ErrorStaysOnTheScreen: not on the alternate screen.
func TestWatch_NoRedis_ErrorStaysOnTheScreen(t *testing.T) {
	p := openPTY(t, 80, 24)
	require.Equal(t, exitError, <-p.start(context.Background(), "watch", "x", "--redis", "redis://127.0.0.1:1"))
	p.await(t, "connection refused")
	require.NotContains(t, p.text(), "\x1b[?1049h")
}

func TestList_NarrowTerminal_WritesLines(t *testing.T) {
	s := startRedis(t)
	zoo(s)
	p := openPTY(t, 20, 10)
	require.Equal(t, exitDone, <-p.start(context.Background(), "ls", "paid*", "--redis", s.url()))
	p.await(t, "expires never")
	require.Contains(t, p.text(), "paid-api\r\n  kind OVERALL\r\n  rate 100/1h\r\n  taken 100\r\n")
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
			return strings.Contains(p.text(), "\r\x1b[K")
		}, 30*time.Second, 10*time.Millisecond)
		done()
		p.await(t, "\r\x1b[K"+want+"\r\x1b[K")
	}

	report, done := (&app{err: new(bytes.Buffer)}).progress()
	require.Nil(t, report)
	done()
}
