package redistest

import (
	"net"
	"sync"
)

// Listener listens for connections in memory, so that a server and its clients run on a fake clock.
type Listener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

// NewListener returns a listener on which up to 100 connections may wait for Accept.
func NewListener() *Listener {
	return &Listener{conns: make(chan net.Conn, 100), closed: make(chan struct{})}
}

// Dial connects to the server. The client has the address 192.0.2.1.
func (l *Listener) Dial() net.Conn {
	near, far := net.Pipe()
	l.conns <- addressed{far}
	return near
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

// addressed is a connection of 192.0.2.1.
type addressed struct{ net.Conn }

func (addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711} }
