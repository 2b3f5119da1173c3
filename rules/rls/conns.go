package rls

import (
	"net"
	"sync"
	"sync/atomic"
)

// listener knows its connections. Neither server ends one that has sent nothing: gRPC's waits for its handshake.
type listener struct {
	net.Listener

	mu     sync.Mutex
	ending bool // no connection is taken
	conns  map[*conn]bool
}

// conn is a connection of a listener.
type conn struct {
	net.Conn

	of   *listener
	sent atomic.Bool // the client has sent something
}

func newListener(l net.Listener) *listener {
	return &listener{Listener: l, conns: make(map[*conn]bool)}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		_ = accepted.Close() // the server finds it closed
		return c, nil
	}
	l.conns[c] = true
	return c, nil
}

// end closes the connections whose clients have sent nothing, or all.
func (l *listener) end(all bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	for c := range l.conns {
		if all || !c.sent.Load() {
			_ = c.Conn.Close() // its server notices
			delete(l.conns, c)
		}
	}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (n int, err error) {
	n, err = c.Conn.Read(p)
	if n > 0 && !c.sent.Load() {
		c.sent.Store(true)
	}
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.of.mu.Lock()
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
