package httplimit_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/rratelimiter/rratelimiter/internal/redistest"
)

// pipes is a network of pipes, on which net/http serves on the fake clock.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- addressed{theirs}
	return ours, nil
}

// addressed is a connection of 192.0.2.1.
type addressed struct{ net.Conn }

func (addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711} }

// listen serves a handler on the fake clock until its end.
func listen(b *redistest.Fixture, handler http.Handler) *pipes {
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(p) }()
	b.Cleanup(func() { server.Close() })
	return p
}

// exchange sends lines of a request as they are and returns the response.
func exchange(b *redistest.Fixture, p *pipes, lines string) string {
	conn, err := p.dial(b.Context(), "", "")
	require.NoError(b, err)
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(conn, strings.ReplaceAll(lines, "\n", "\r\n")+"Connection: close\r\n\r\n")
	}()
	got, err := io.ReadAll(bufio.NewReader(conn))
	require.NoError(b, err)
	return strings.ReplaceAll(string(got), "\r\n", "\n")
}
