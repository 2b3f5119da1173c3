package redistest

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
)

// Odd is a server that answers every command with one message. After a number of answers it returns
// an error, so that no caller repeats its call for ever.
type Odd struct {
	Message atomic.Pointer[string]
	Left    atomic.Int32 // answers until the error
}

// Dial connects to the server.
func (s *Odd) Dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go s.serve(theirs)
	return ours, nil
}

func (s *Odd) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		words, err := readCommand(in)
		if err != nil {
			return
		}
		reply := "-ERR enough\r\n"
		switch words[0] {
		case "HELLO":
			reply = "%3\r\n+server\r\n+redis\r\n+version\r\n+7.0.0\r\n+proto\r\n:3\r\n"
		case "CLIENT":
			reply = "+OK\r\n"
		case "PING":
			reply = "+PONG\r\n"
		default:
			if s.Left.Add(-1) >= 0 {
				reply = *s.Message.Load()
			}
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
}

// readCommand reads one command as clients send it: an array of bulk strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	count, err := readLength(in, '*')
	if err != nil {
		return nil, err
	}
	words := make([]string, count)
	for i := range words {
		length, err := readLength(in, '$')
		if err != nil {
			return nil, err
		}
		word := make([]byte, length+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:length])
	}
	return words, nil
}

func readLength(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("want %q, got %q", kind, line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// OddMessage makes one well-formed RESP3 message out of any bytes: a reply that no script of this
// module has.
func OddMessage(source []byte) string { return (&messages{source}).next(0) }

type messages struct{ source []byte }

func (r *messages) octet() byte {
	if len(r.source) == 0 {
		return 0
	}
	b := r.source[0]
	r.source = r.source[1:]
	return b
}

func (r *messages) text() string {
	n := min(int(r.octet()%32), len(r.source))
	text := string(r.source[:n])
	r.source = r.source[n:]
	return text
}

func (r *messages) number() int64 {
	switch b := r.octet(); {
	case b < 200:
		return int64(b) - 4
	case b < 220:
		return 1<<62 + int64(b)
	case b < 240:
		return -1<<63 + int64(b)
	default:
		return int64(r.octet())<<(b&31) - 1
	}
}

func (r *messages) next(depth int) string {
	switch choice := r.octet() % 16; {
	case choice < 5:
		return fmt.Sprintf(":%d\r\n", r.number())
	case choice < 8:
		text := r.text()
		return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	case choice == 8:
		return "+" + strings.NewReplacer("\r", "", "\n", "").Replace(r.text()) + "\r\n"
	case choice == 9:
		return "-" + strings.NewReplacer("\r", "", "\n", "").Replace(r.text()) + "\r\n"
	case choice == 10:
		return "_\r\n"
	case choice == 11:
		return fmt.Sprintf(",%d.5\r\n", r.number())
	case choice == 12:
		return "#t\r\n"
	case depth > 2:
		return "$-1\r\n"
	}
	n := int(r.octet() % 12)
	var all strings.Builder
	fmt.Fprintf(&all, "*%d\r\n", n)
	for range n {
		all.WriteString(r.next(depth + 1))
	}
	return all.String()
}
