// Package servers starts real Redis servers for tests: a single one, a cluster, or a master under
// sentinels.
//
// The servers are local processes on loopback, each on a free port, without persistence. The
// program is redis-server, or that of the environment variable REDIS_SERVER. Without the program
// the test fails.
//
// Single, NewCluster and NewSentinel belong to a test and end with it. OpenSingle and OpenCluster
// are for TestMain and for programs, which call Close themselves.
package servers

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// startTimeout bounds a start or restart in a test. A single server needs less than a second; a
// cluster on a busy machine up to ten.
const startTimeout = 60 * time.Second

// Server is one Redis server. Its methods are safe for concurrent use.
type Server struct {
	dir  string
	port int
	args []string // all but the port

	mu      sync.Mutex
	process *process // never nil; after Kill the killed one
}

// Single starts a server for the test. args follow the default arguments of redis-server and
// override them. The test fails if the server does not start; the server ends with the test.
func Single(t testing.TB, args ...string) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := OpenSingle(ctx, args...)
	if err != nil {
		t.Fatalf("servers: %v", err)
	}
	t.Cleanup(func() { closeAndReport(t, server) })
	return server
}

// OpenSingle is Single without a test: the caller must Close the server. ctx bounds the start.
func OpenSingle(ctx context.Context, args ...string) (*Server, error) {
	return startServer(ctx, dataArgs(args))
}

// Addr returns the server's address, host:port.
func (s *Server) Addr() string { return net.JoinHostPort(host, strconv.Itoa(s.port)) }

// Port returns the server's port. Restart keeps it.
func (s *Server) Port() int { return s.port }

// Log returns the end of the server's output since its last start.
func (s *Server) Log() string { return s.current().output.String() }

// Pause stops the server like a hung host: connections stay open and no reply comes, until Resume.
func (s *Server) Pause() error { return s.current().signal(syscall.SIGSTOP) }

// Resume continues a paused server.
func (s *Server) Resume() error { return s.current().signal(syscall.SIGCONT) }

// Kill ends the server as a crash does, and returns when it has ended. It has no effect on an ended
// server.
func (s *Server) Kill() error { return s.current().kill() }

// Restart kills the server if it runs, and starts it on the same port in the same directory. Data
// is lost unless the server's arguments keep it. Restart returns when the server replies.
func (s *Server) Restart() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()

	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.process.kill(); err != nil {
		return err
	}
	started, err := launch(s.dir, s.port, s.args)
	if err != nil {
		return err
	}
	s.process = started
	return awaitReply(ctx, s.port, started)
}

// Close kills the server and removes its directory.
func (s *Server) Close() error { return errors.Join(s.Kill(), os.RemoveAll(s.dir)) }

// Do runs a command on this server over a new connection, and returns its reply. It fails after a
// few seconds without a reply, also if ctx has no deadline.
func (s *Server) Do(ctx context.Context, args ...string) (rueidis.RedisMessage, error) {
	return ask(ctx, s.Addr(), args...)
}

func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// ask runs a command on the server at addr over a new connection.
func ask(ctx context.Context, addr string, args ...string) (rueidis.RedisMessage, error) {
	const answerTimeout = 3 * time.Second
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{addr},
		ForceSingleClient: true,
		DisableCache:      true,
		DisableRetry:      true,
		AlwaysRESP2:       true, // in RESP3 some texts come with their format before them
		Dialer:            net.Dialer{Timeout: answerTimeout},
		ConnWriteTimeout:  answerTimeout,
	})
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	defer client.Close()
	return client.Do(ctx, client.B().Arbitrary(args...).Build()).ToMessage()
}

// askText is ask for a command that replies a string.
func askText(ctx context.Context, addr string, args ...string) (string, error) {
	message, err := ask(ctx, addr, args...)
	if err != nil {
		return "", err
	}
	return message.ToString()
}
