package proxy

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Service is one address of several servers, as of a DNS name or a Kubernetes Service: a new connection goes
// to the server of that time, and stays there.
type Service struct {
	Dials atomic.Int64 // connections so far

	listener net.Listener
	server   atomic.Pointer[string]
	closed   chan struct{}
	conns    sync.WaitGroup
}

// StartService starts a Service of the server at an address. It stops with the test.
func StartService(t testing.TB, server string) *Service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &Service{listener: listener, closed: make(chan struct{})}
	s.Point(server)
	s.conns.Go(s.accept)
	t.Cleanup(func() {
		close(s.closed)
		_ = listener.Close()
		s.conns.Wait()
	})
	return s
}

// Addr returns the address of the Service.
func (s *Service) Addr() string { return s.listener.Addr().String() }

// Point makes new connections go to another server.
func (s *Service) Point(server string) { s.server.Store(&server) }

func (s *Service) accept() {
	for {
		client, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.Dials.Add(1)
		server, err := net.Dial("tcp", *s.server.Load())
		if err != nil {
			_ = client.Close()
			continue
		}
		s.conns.Go(func() {
			ended := make(chan struct{}, 2)
			for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
				s.conns.Go(func() {
					_, _ = io.Copy(to, from)
					ended <- struct{}{}
				})
			}
			select {
			case <-ended:
			case <-s.closed:
			}
			_, _ = client.Close(), server.Close()
		})
	}
}
