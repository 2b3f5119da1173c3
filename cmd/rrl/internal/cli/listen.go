package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w; want HOST:PORT or :PORT, free of other processes", flag, address, err)
	}
	return l, nil
}

// listenGRPC listens on an address, or on the unix socket of "unix:PATH".
func listenGRPC(ctx context.Context, address string) (net.Listener, error) {
	const flag = "--grpc"
	path, ok := strings.CutPrefix(address, "unix:")
	if !ok {
		return listen(ctx, flag, address)
	}
	l, err := listenSocket(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", flag, address, err)
	}
	return l, nil
}

// socketMode lets the user and the group of the service connect.
const socketMode = 0o660

// socket is a listener on a unix socket. Close deletes its file, unless another process has replaced it.
type socket struct {
	net.Listener
	path  string
	info  fs.FileInfo
	close func() error
}

func (s *socket) Close() error { return s.close() }

// listenSocket listens on a unix socket. It replaces a socket on which no process listens, which a crash
// has left behind.
func listenSocket(ctx context.Context, path string) (net.Listener, error) {
	if path == "" || path[0] == '@' || len(path) > 107 {
		return nil, errors.New("want unix:PATH with the path of a file of at most 107 bytes")
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	s := &socket{Listener: l, path: path}
	s.close = sync.OnceValue(func() error {
		err := s.Listener.Close()
		if info, statErr := os.Lstat(s.path); statErr == nil && os.SameFile(info, s.info) {
			err = errors.Join(err, os.Remove(s.path))
		}
		return err
	})
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(path))
	}
	if s.info, err = os.Lstat(path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("another file, not a socket, has this name")
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return errors.New("another process listens there")
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil // it was just removed
	}
	return fmt.Errorf("another process may listen there: %w", err)
}

// where returns the address of a listener for the log, in the form of a gRPC client.
func where(l net.Listener) string {
	if l == nil {
		return "nowhere"
	}
	if l.Addr().Network() == "unix" {
		return "unix:" + l.Addr().String()
	}
	return l.Addr().String()
}
