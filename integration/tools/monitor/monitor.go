// Package monitor observes the commands of a server in the order in which it runs them: those of
// clients and those of scripts.
package monitor

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Command is one command as MONITOR reports it.
type Command struct {
	At     time.Time // on the server's clock
	Script bool      // run by the script of the last command without Script
	text   string    // the words, quoted
}

// Name is the command's name, in the letters in which it was sent.
func (c Command) Name() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(c.text, `"`), `"`)
	return name
}

// Words returns the command's name and arguments.
func (c Command) Words() []string {
	var words []string
	for rest := c.text; ; {
		rest = strings.TrimLeft(rest, " ")
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return words
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return words
		}
		words, rest = append(words, word), rest[len(quoted):]
	}
}

// parse reads a line of MONITOR: 1700000000.123456 [0 127.0.0.1:4711] "GET" "key". Scripts have lua
// in place of the address.
func parse(line string) (Command, bool) {
	clock, rest, ok := strings.Cut(strings.TrimRight(strings.TrimPrefix(line, "+"), "\r\n"), " [")
	seconds, micros, dot := strings.Cut(clock, ".")
	source, text, closed := strings.Cut(rest, "] ")
	s, err := strconv.ParseInt(seconds, 10, 64)
	us, fractionErr := strconv.ParseInt(micros, 10, 64)
	if !ok || !dot || !closed || err != nil || fractionErr != nil {
		return Command{}, false
	}
	return Command{At: time.UnixMicro(s*1_000_000 + us), Script: strings.HasSuffix(source, " lua"), text: text}, true
}

// Monitor is a connection on which a server reports what it runs.
type Monitor struct {
	addr  string
	conn  net.Conn
	ended chan struct{}

	mu     sync.Mutex
	echoes map[string]chan struct{} // by word: closed once the server has run it
	strays []string                 // lines that are no command
}

// Watch calls see with every command that the server at addr runs from now on. The monitor ends
// with the test.
func Watch(t testing.TB, addr string, see func(Command)) *Monitor {
	t.Helper()
	m, err := Open(addr, see)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(m.Close)
	return m
}

// Open is Watch without a test: the caller must Close the monitor.
func Open(addr string, see func(Command)) (*Monitor, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	m := &Monitor{addr: addr, conn: conn, ended: make(chan struct{}), echoes: make(map[string]chan struct{})}
	in := bufio.NewReaderSize(conn, 1<<16)
	var answer string
	if _, err = io.WriteString(conn, "MONITOR\r\n"); err == nil {
		answer, err = in.ReadString('\n')
	}
	if err == nil && answer != "+OK\r\n" {
		err = fmt.Errorf("MONITOR returned %q", answer)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("monitor: %w", err)
	}
	go func() {
		defer close(m.ended)
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			m.read(line, see)
		}
	}()
	return m, nil
}

func (m *Monitor) read(line string, see func(Command)) {
	command, ok := parse(line)
	m.mu.Lock()
	if !ok {
		m.strays = append(m.strays, line)
	}
	for word, came := range m.echoes {
		if strings.HasSuffix(command.text, word) {
			delete(m.echoes, word)
			close(came)
		}
	}
	m.mu.Unlock()
	if ok {
		see(command)
	}
}

// CatchUp waits until see has returned for all commands that the server has run so far.
func (m *Monitor) CatchUp(t testing.TB) {
	t.Helper()
	if err := m.Sync(context.Background()); err != nil {
		t.Fatalf("%v", err)
	}
}

// Sync is CatchUp without a test.
func (m *Monitor) Sync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	word, came := rand.Text(), make(chan struct{})
	m.mu.Lock()
	m.echoes[strconv.Quote(word)] = came
	m.mu.Unlock()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.addr)
	if err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "ECHO "+word+"\r\n"); err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	select {
	case <-came:
	case <-m.ended:
		return errors.New("monitor: the server has closed the connection")
	case <-ctx.Done():
		return fmt.Errorf("monitor: commands are missing: %w", ctx.Err())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.strays) > 0 {
		return fmt.Errorf("monitor: %d lines are no commands, the first is %q", len(m.strays), m.strays[0])
	}
	return nil
}

// Close ends the monitor. see is not called after it.
func (m *Monitor) Close() {
	m.conn.Close()
	<-m.ended
}

// Quotes reports whether the words that the server's MONITOR shows can be split, and logs it if
// they cannot. Valkey 8.1.0 and 8.1.1 do not escape quotes and backslashes (valkey-io/valkey issue
// 2035), which grants may contain.
func Quotes(t testing.TB, addr string) bool {
	t.Helper()
	want := rand.Text() + `"\n"`
	quotes := false
	m := Watch(t, addr, func(c Command) {
		words := c.Words()
		quotes = quotes || len(words) == 2 && words[1] == want
	})
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("monitor: %v", err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", len(want), want); err != nil {
		t.Fatalf("monitor: %v", err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatalf("monitor: %v", err)
	}
	m.CatchUp(t)
	m.Close()
	if !quotes {
		t.Logf("MONITOR of the server on %s does not escape quotes and backslashes: what scripts add and remove cannot be read from it", addr)
	}
	return quotes
}
