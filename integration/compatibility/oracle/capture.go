package oracle

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// CaptureScript runs do and answers the last script that any client had the server at redisAddr run
// meanwhile, with its keys and arguments, as MONITOR shows them: bytes are bytes. So a test gets
// the script that a release of Redisson really sends, which is Redisson's and has no place in this
// repository.
//
// The server's script cache is emptied before, so that a client that knows its scripts by their
// hashes has to send the text again. Nothing else should use the server meanwhile. On a cluster
// redisAddr must be the master that the keys belong to.
func CaptureScript(ctx context.Context, redisAddr string, do func()) (script string, keys, args []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	monitor, err := dial(ctx, redisAddr)
	if err != nil {
		return "", nil, nil, err
	}
	defer monitor.Close()
	control, err := dial(ctx, redisAddr)
	if err != nil {
		return "", nil, nil, err
	}
	defer control.Close()

	if err := control.expectOK("SCRIPT FLUSH"); err != nil {
		return "", nil, nil, err
	}
	if err := monitor.expectOK("MONITOR"); err != nil {
		return "", nil, nil, err
	}
	// The monitor has to be read while do runs: the server drops one that falls too far behind.
	end := "end-of-capture-" + rand.Text()
	seen := make(chan capture, 1)
	go func() { seen <- monitor.scripts(end) }()

	do()
	if err := control.send("ECHO " + end); err != nil {
		return "", nil, nil, err
	}
	c := <-seen
	if c.err != nil {
		return "", nil, nil, errors.Join(fmt.Errorf("reading MONITOR: %w", c.err), ctx.Err())
	}
	if c.last == nil {
		return "", nil, nil, errors.New("no script was run")
	}
	return c.last.split()
}

// capture is what a monitor saw until the ECHO at its end.
type capture struct {
	last *evaluation
	err  error
}

// evaluation is one EVAL, or an EVALSHA with the text that belongs to its hash.
type evaluation struct {
	script string
	rest   []string // number of keys, keys, arguments
}

func (e *evaluation) split() (script string, keys, args []string, err error) {
	if len(e.rest) == 0 {
		return "", nil, nil, errors.New("a script without a number of keys")
	}
	n, err := strconv.Atoi(e.rest[0])
	if err != nil || n < 0 || n > len(e.rest)-1 {
		return "", nil, nil, fmt.Errorf("a script with %q keys of %d arguments", e.rest[0], len(e.rest)-1)
	}
	return e.script, e.rest[1 : 1+n], e.rest[1+n:], nil
}

// connection speaks inline commands with a Redis server, which no client library offers together
// with MONITOR.
type connection struct {
	net.Conn
	lines *bufio.Reader
}

// dial connects; where ctx ends, so does the connection.
func dial(ctx context.Context, addr string) (*connection, error) {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	return &connection{Conn: conn, lines: bufio.NewReader(conn)}, nil
}

func (c *connection) send(command string) error {
	_, err := c.Write([]byte(command + "\r\n"))
	return err
}

func (c *connection) expectOK(command string) error {
	if err := c.send(command); err != nil {
		return err
	}
	line, err := c.lines.ReadString('\n')
	if err != nil {
		return err
	}
	if line != "+OK\r\n" {
		return fmt.Errorf("%s: %s", command, strings.TrimSpace(line))
	}
	return nil
}

// scripts reads what MONITOR shows until a command has the argument end.
func (c *connection) scripts(end string) capture {
	texts := make(map[string]string) // by hash
	var last *evaluation
	for {
		line, err := c.lines.ReadBytes('\n')
		if err != nil {
			return capture{err: err}
		}
		command, err := parseMonitor(line)
		if err != nil {
			return capture{err: err}
		}
		if len(command) < 2 {
			continue
		}
		switch strings.ToUpper(command[0]) {
		case "ECHO":
			if command[1] == end {
				return capture{last: last}
			}
		case "SCRIPT":
			if len(command) == 3 && strings.EqualFold(command[1], "LOAD") {
				texts[scriptHash(command[2])] = command[2]
			}
		case "EVAL", "EVAL_RO":
			texts[scriptHash(command[1])] = command[1]
			last = &evaluation{script: command[1], rest: command[2:]}
		case "EVALSHA", "EVALSHA_RO":
			// A hash that the server does not know yet was refused: the client comes back with the
			// text.
			if text, ok := texts[strings.ToLower(command[1])]; ok {
				last = &evaluation{script: text, rest: command[2:]}
			}
		}
	}
}

// scriptHash is the name that Redis gives a script.
func scriptHash(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

// parseMonitor reads a line as +1700000000.000001 [0 127.0.0.1:50000] "SET" "k" "\x00v" and answers
// the command with its arguments. It answers none for a command that a script ran, [0 lua], since
// that one is not the client's.
func parseMonitor(line []byte) ([]string, error) {
	head, rest, ok := bytes.Cut(line, []byte("] "))
	if !ok || len(line) == 0 || line[0] != '+' {
		return nil, fmt.Errorf("MONITOR: cannot read %.200q", line)
	}
	if bytes.HasSuffix(head, []byte(" lua")) {
		return nil, nil
	}
	var command []string
	for rest = bytes.TrimRight(rest, "\r\n"); len(rest) > 0; rest = bytes.TrimPrefix(rest, []byte(" ")) {
		var arg string
		var err error
		if arg, rest, err = parseQuoted(rest); err != nil {
			return nil, fmt.Errorf("MONITOR: %w in %.200q", err, line)
		}
		command = append(command, arg)
	}
	return command, nil
}

var errQuoting = errors.New("broken quoting")

// escapes are those that Redis writes beside \xNN; \\ and \" stand for themselves.
var escapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', 'a': '\a', 'b': '\b', '\\': '\\', '"': '"'}

// parseQuoted reads one argument in quotes and answers what follows it.
func parseQuoted(text []byte) (arg string, rest []byte, err error) {
	if len(text) == 0 || text[0] != '"' {
		return "", nil, errQuoting
	}
	var raw []byte
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return string(raw), text[i+1:], nil
		case c != '\\':
			raw = append(raw, c)
		case i+3 < len(text) && text[i+1] == 'x':
			b, err := strconv.ParseUint(string(text[i+2:i+4]), 16, 8)
			if err != nil {
				return "", nil, errQuoting
			}
			raw = append(raw, byte(b))
			i += 3
		case i+1 < len(text):
			b, ok := escapes[text[i+1]]
			if !ok {
				return "", nil, errQuoting
			}
			raw = append(raw, b)
			i++
		}
	}
	return "", nil, errQuoting
}
