package servers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// dataArgs returns the arguments of a server with data, only in memory.
func dataArgs(args []string) []string {
	return append([]string{"--save", "", "--appendonly", "no"}, args...)
}

var errPortTaken = errors.New("the port is taken")

// startServer starts a server on a free port, in a directory of its own. If another process takes the
// port first, it tries another port.
func startServer(ctx context.Context, args []string) (_ *Server, err error) {
	dir, err := os.MkdirTemp("", "redis-")
	if err != nil {
		return nil, err
	}
	const tries = 20
	for range tries {
		var port int
		if port, err = freePort(); err != nil {
			break
		}
		var started *process
		if started, err = launch(dir, port, args); err != nil {
			break
		}
		if err = awaitReply(ctx, port, started); err == nil {
			return &Server{dir: dir, port: port, args: args, process: started}, nil
		}
		err = errors.Join(err, started.kill())
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, errors.Join(err, os.RemoveAll(dir))
}

// freePort returns a free port whose cluster bus port (10000 above) is also free. Both are below
// the range of outgoing connections, so only another server can take them.
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

// awaitReply waits until the started server replies. Its process id distinguishes it from another
// server on the port.
func awaitReply(ctx context.Context, port int, started *process) error {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	want := "process_id:" + strconv.Itoa(started.pid()) + "\r\n"
	for {
		select {
		case <-started.done:
			if strings.Contains(started.output.String(), "Address already in use") {
				return fmt.Errorf("%s: %w", addr, errPortTaken)
			}
			return fmt.Errorf("the server on %s has ended, its log:\n%s", addr, started.output.String())
		default:
		}
		info, err := ask(ctx, addr, "INFO", "server")
		if err == nil {
			text, textErr := info.ToString()
			switch {
			case textErr != nil:
				err = textErr
			case strings.Contains(text, want):
				return nil
			default:
				return fmt.Errorf("another server answers on %s: %w", addr, errPortTaken)
			}
		}
		if !pause(ctx) {
			return fmt.Errorf("the server on %s does not answer: %w, its log:\n%s", addr, err, started.output.String())
		}
	}
}

// startAll starts n servers at once, with the arguments that args returns for each. If one fails, it
// ends the others.
func startAll(ctx context.Context, n int, args func(i int) []string) ([]*Server, error) {
	started := make([]*Server, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { started[i], errs[i] = startServer(ctx, args(i)) })
	}
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		return started, nil
	}
	running := slices.DeleteFunc(started, func(s *Server) bool { return s == nil })
	return nil, errors.Join(err, closeAll(running))
}

func closeAll(servers []*Server) error {
	var errs []error
	for _, server := range servers {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}

// closeAndReport ends the servers of a test, and logs their output if it failed.
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

// awaitHealthy waits until a check of all servers finds no error.
func awaitHealthy(ctx context.Context, check func(context.Context) error) error {
	for {
		if err := check(ctx); err == nil || !pause(ctx) {
			return err
		}
	}
}

// pause waits before a retry. It returns false if ctx has ended.
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
