// Package servers starts real Redis servers for tests: one alone, a cluster, or a master under sentinels.
//
// The servers are local processes on loopback, each on a free port, without persistence. The binary is redis-server, or what the
// environment variable REDIS_SERVER names. A missing binary fails the test: a suite that skips what it cannot start proves nothing.
//
// Where the environment variable REDIS_CONTAINER names the program of package container, as make test-docker does, each server runs
// in a container instead, from the image REDIS_IMAGE. A test cannot tell: addresses, process ids and folders are as those of a process.
//
// Single, NewCluster and NewSentinel belong to a test and end with it. OpenSingle, OpenCluster and OpenSentinel are for TestMain and
// for programs, which call Close themselves.
package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// startTimeout bounds one start or restart in a test. A single server is up in well under a second; a cluster on a busy machine with
// two cores needs up to ten.
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

// Single starts one server for the test, with the given arguments of redis-server after the defaults, which they override. The test
// fails where it cannot be started; the server ends with the test.
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

// OpenSingle is Single without a test: the caller must Close the server. ctx bounds the start alone.
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

// Running says whether the server's process exists; a paused one does.
func (s *Server) Running() bool {
	select {
	case <-s.current().exited():
		return false
	default:
		return true
	}
}

// Pause stops the server as a hung host would look: connections stay open and nothing answers, until Resume.
func (s *Server) Pause() error { return s.current().pause() }

// Resume lets a paused server go on.
func (s *Server) Resume() error { return s.current().resume() }

// Kill ends the server as a crash would, and returns when it has gone. Killing it again does nothing.
func (s *Server) Kill() error { return s.current().kill() }

// Restart kills the server if it runs, and starts it again on the same port in the same directory. Data is lost unless the server's
// arguments say otherwise. It returns once the server answers.
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

// Do runs one command on this server and returns its answer, over a connection of its own. A server that does not answer within a
// few seconds is an error, also where ctx has no deadline.
func (s *Server) Do(ctx context.Context, args ...string) (rueidis.RedisMessage, error) {
	return ask(ctx, s.Addr(), args...)
}

func (s *Server) current() instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.instance
}

// dataArgs are the arguments of a server that keeps data, in memory alone.
func dataArgs(args []string) []string {
	return append([]string{"--save", "", "--appendonly", "no"}, args...)
}

var errPortTaken = errors.New("the port is taken")

// startServer starts a server on a free port. Whether a port is free is known only once the server has bound it, so a port that
// another process took in between is given up for another one.
func startServer(ctx context.Context, l launcher, dir string, args []string) (*Server, error) {
	const tries = 20
	var err error
	for range tries {
		var port int
		if port, err = freePort(); err != nil {
			return nil, err
		}
		var started instance
		if started, err = l.launch(dir, port, args); err != nil {
			return nil, err
		}
		if err = awaitAnswer(ctx, port, started); err == nil {
			return &Server{launcher: l, dir: dir, port: port, args: args, instance: started}, nil
		}
		err = errors.Join(err, started.kill())
		if !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
	return nil, err
}

// freePort finds a port that is free now, and whose cluster bus port (10000 above) is free too. Both lie below the range from which
// systems take the ports of outgoing connections, so only another server can take them.
func freePort() (int, error) {
	const low, high, tries = 11000, 22000, 200
	for range tries {
		port := low + rand.IntN(high-low)
		if canListen(port) && canListen(port+10000) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d", low, high)
}

func canListen(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// awaitAnswer waits until the started server answers. That it is this one and not another one on the same port is told by its process id.
func awaitAnswer(ctx context.Context, port int, started instance) error {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	want := "process_id:" + strconv.Itoa(started.pid()) + "\r\n"
	for {
		select {
		case <-started.exited():
			if strings.Contains(started.log(), "Address already in use") {
				return fmt.Errorf("%s: %w", addr, errPortTaken)
			}
			return fmt.Errorf("the server on %s has ended, its log:\n%s", addr, started.log())
		default:
		}
		info, err := ask(ctx, addr, "INFO", "server")
		if err == nil {
			text, textErr := info.ToString()
			switch {
			case textErr != nil:
				err = textErr
			case started.pid() == 0 || strings.Contains(text, want):
				return nil
			default:
				return fmt.Errorf("another server answers on %s: %w", addr, errPortTaken)
			}
		}
		if !pause(ctx) {
			return fmt.Errorf("the server on %s does not answer: %w, its log:\n%s", addr, err, started.log())
		}
	}
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

// pause waits a moment before something is looked at again; false once ctx has ended.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(20 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// startAll starts n servers at once, each in its own folder under dir. Where one fails, all that started are killed. args gives a server's
// arguments and may prepare its folder.
func startAll(ctx context.Context, dir string, n int, args func(own string) ([]string, error)) ([]*Server, error) {
	started := make([]*Server, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			own, err := os.MkdirTemp(dir, "server-")
			if err != nil {
				errs[i] = err
				return
			}
			ownArgs, err := args(own)
			if err != nil {
				errs[i] = err
				return
			}
			started[i], errs[i] = startServer(ctx, launcherAskedFor(), own, ownArgs)
		})
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		return started, nil
	}
	for _, server := range started {
		if server != nil {
			err = errors.Join(err, server.Kill())
		}
	}
	return nil, err
}

func closeAll(servers []*Server) error {
	var errs []error
	for _, server := range servers {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}

// closeAndReport ends the servers of a test, and shows their logs where it has failed.
func closeAndReport(t testing.TB, servers ...*Server) {
	if t.Failed() {
		for _, server := range servers {
			t.Logf("log of the server on %s:\n%s", server.Addr(), server.Log())
		}
	}
	if err := closeAll(servers); err != nil {
		t.Errorf("servers: %v", err)
	}
}
