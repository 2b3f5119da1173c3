// Package servers starts real Redis servers for tests: one alone, a cluster, or a master under
// sentinels.
//
// The servers are local processes on loopback, each on a free port, without persistence. The binary
// is redis-server, or what the environment variable REDIS_SERVER names. A missing binary fails the
// test: a suite that skips what it cannot start proves nothing.
//
// Where the environment variable REDIS_CONTAINER names the program of package container, as make
// test-docker does, each server runs in a container instead, from the image REDIS_IMAGE. A test
// cannot see: addresses, process ids and folders are as those of a process.
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
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// startTimeout bounds one start or restart in a test. A single server is up in well under a second;
// a cluster on a busy machine with two cores needs up to ten.
const startTimeout = 60 * time.Second

// Server is one Redis server. Its methods are safe for concurrent use.
type Server struct {
	launcher launcher
	dir      string
	ownsDir  bool
	port     int
	args     []string // all but the port

	mu       sync.Mutex
	instance instance // never nil; after Kill the one that was killed
}

// Single starts one server for the test, with the given arguments of redis-server after the
// defaults, which they override. The test fails where it cannot be started; the server ends with
// the test.
func Single(t testing.TB, args ...string) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	server, err := startServer(ctx, launcherAskedFor(), t.TempDir(), dataArgs(args))
	if err != nil {
		t.Fatalf("servers: %v", err)
	}
	t.Cleanup(func() { closeAndReport(t, server) })
	return server
}

// OpenSingle is Single without a test: the caller must Close the server. ctx bounds the start
// alone.
func OpenSingle(ctx context.Context, args ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "redis-")
	if err != nil {
		return nil, err
	}
	server, err := startServer(ctx, launcherAskedFor(), dir, dataArgs(args))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	server.ownsDir = true
	return server, nil
}

// Addr is the server's address, host:port.
func (s *Server) Addr() string { return net.JoinHostPort(host, strconv.Itoa(s.port)) }

// Port is the server's port. It stays the same over Restart.
func (s *Server) Port() int { return s.port }

// Dir is the server's working directory.
func (s *Server) Dir() string { return s.dir }

// PID is the id of the server's process, or of the last one where it was killed.
func (s *Server) PID() int { return s.current().pid() }

// Log is the end of what the server wrote since its last start.
func (s *Server) Log() string { return s.current().log() }

// Running reports whether the server's process exists; a paused one does.
func (s *Server) Running() bool {
	select {
	case <-s.current().exited():
		return false
	default:
		return true
	}
}

// Pause stops the server as a hung host would look: connections stay open and nothing answers,
// until Resume.
func (s *Server) Pause() error { return s.current().pause() }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.current().resume() }

// Kill ends the server as a crash would, and returns when it has gone. Killing it again does
// nothing.
func (s *Server) Kill() error { return s.current().kill() }

// Restart kills the server if it runs, and starts it again on the same port in the same directory.
// Data is lost unless the server's arguments say otherwise. It returns once the server answers.
func (s *Server) Restart() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()

	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.instance.kill(); err != nil {
		return err
	}
	started, err := s.launcher.launch(s.dir, s.port, s.args)
	if err != nil {
		return err
	}
	s.instance = started
	return awaitAnswer(ctx, s.port, started)
}

// Close kills the server and, where OpenSingle made the directory, removes it.
func (s *Server) Close() error {
	err := s.Kill()
	if s.ownsDir {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// Do runs one command on this server and returns its answer, over a connection of its own. A server
// that does not answer within a few seconds is an error, also where ctx has no deadline.
func (s *Server) Do(ctx context.Context, args ...string) (rueidis.RedisMessage, error) {
	return ask(ctx, s.Addr(), args...)
}

func (s *Server) current() instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.instance
}

// ask runs one command on the server at addr over a connection of its own.
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

// askText is ask for a command that answers a text.
func askText(ctx context.Context, addr string, args ...string) (string, error) {
	message, err := ask(ctx, addr, args...)
	if err != nil {
		return "", err
	}
	return message.ToString()
}
