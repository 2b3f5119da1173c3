// Package monitor observes the commands of a server in the order in which it runs them: those of
// clients and those of scripts.
package monitor

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err, "monitor")
	m := &Monitor{addr: addr, conn: conn, ended: make(chan struct{}), echoes: make(map[string]chan struct{})}
	in := bufio.NewReaderSize(conn, 1<<16)
	_, err = io.WriteString(conn, "MONITOR\r\n")
	require.NoError(t, err, "monitor")
	answer, err := in.ReadString('\n')
	require.NoError(t, err, "monitor")
	require.Equal(t, "+OK\r\n", answer, "the reply to MONITOR")
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
	t.Cleanup(m.Close)
	return m
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
	word, came := rand.Text(), make(chan struct{})
	m.mu.Lock()
	m.echoes[strconv.Quote(word)] = came
	m.mu.Unlock()
	conn, err := net.Dial("tcp", m.addr)
	require.NoError(t, err, "monitor")
	defer conn.Close()
	_, err = io.WriteString(conn, "ECHO "+word+"\r\n")
	require.NoError(t, err, "monitor")
	select {
	case <-came:
	case <-m.ended:
		require.Fail(t, "the server has closed the connection of the monitor")
	case <-time.After(30 * time.Second):
		require.Fail(t, "the monitor misses commands")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	require.Empty(t, m.strays, "lines that are no commands")
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
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", len(want), want)
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.NoError(t, err)
	m.CatchUp(t)
	m.Close()
	if !quotes {
		t.Logf("MONITOR of the server on %s does not escape quotes and backslashes: what scripts add and remove cannot be read from it", addr)
	}
	return quotes
}
