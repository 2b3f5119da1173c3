// Package memredis connects to a Redis in memory over pipes. They need no port. Goroutines that
// wait for a reply are durably blocked in the sense of testing/synctest.
package memredis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
)

// noPings keeps rueidis from a ping per second: a test may advance a fake clock by months.
const noPings = -time.Second

// Connect returns a client of a Redis.
func Connect(redis *miniredis.Miniredis) (rueidis.Client, error) {
	return ConnectThrough(redis, func(conn net.Conn) net.Conn { return conn })
}

// ConnectThrough is Connect with connections that a function wraps.
func ConnectThrough(redis *miniredis.Miniredis, wrap func(net.Conn) net.Conn) (rueidis.Client, error) {
	option := clientOption("in-memory", func(string) *miniredis.Miniredis { return redis }, wrap)
	option.ForceSingleClient = true
	return rueidis.NewClient(option)
}

// ConnectCluster returns a client of a Redis Cluster with the nodes at some addresses, nil for one that
// cannot be reached. The node at the first address tells it who has which slots.
func ConnectCluster(first string, node func(address string) *miniredis.Miniredis) (rueidis.Client, error) {
	return rueidis.NewClient(clientOption(first, node, func(conn net.Conn) net.Conn { return conn }))
}

func clientOption(address string, node func(address string) *miniredis.Miniredis,
	wrap func(net.Conn) net.Conn) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:       []string{address},
		DisableCache:      true,
		PipelineMultiplex: -1, // one connection, so that calls in flight arrive in order
		Dialer:            net.Dialer{KeepAlive: noPings},
		DialCtxFn: func(_ context.Context, address string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			server := node(address)
			if server == nil {
				return nil, fmt.Errorf("no node has the address %s", address)
			}
			pipe, err := server.Dial()
			if err != nil {
				return nil, err
			}
			return wrap(&buffered{Conn: pipe}), nil
		},
	}
}

// buffered is a pipe whose Write does not wait for the reader, as on a socket. Otherwise the server
// would wait for the client to read a reply, and the client for the server to read the rest of a
// long pipeline.
type buffered struct {
	net.Conn

	mu      sync.Mutex
	pending []byte
	writing bool
	err     error // of a Write to the pipe, or of Close
}

func (c *buffered) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.pending = append(c.pending, p...)
	if !c.writing {
		c.writing = true
		go c.flush()
	}
	return len(p), nil
}

// flush writes to the pipe until nothing is pending.
func (c *buffered) flush() {
	for {
		c.mu.Lock()
		p := c.pending
		c.pending = nil
		c.writing = len(p) > 0 && c.err == nil
		writing := c.writing
		c.mu.Unlock()
		if !writing {
			return
		}
		if _, err := c.Conn.Write(p); err != nil {
			c.fail(err)
		}
	}
}

// Close also ends Write, on whose error rueidis relies.
func (c *buffered) Close() error {
	c.fail(net.ErrClosed)
	return c.Conn.Close()
}

func (c *buffered) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

func (c *buffered) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *buffered) SetWriteDeadline(time.Time) error { return nil }
