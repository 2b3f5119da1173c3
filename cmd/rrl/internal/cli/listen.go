package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
)

// socketMode lets the user and the group of the service connect.
const socketMode = 0o660

// listen listens on an address, or on the unix socket of "unix:PATH". It returns nil for "".
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	network, at := "tcp", address
	path, socket := strings.CutPrefix(address, "unix:")
	if socket {
		network, at = "unix", path
	}
	l, err := new(net.ListenConfig).Listen(ctx, network, at)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w; want HOST:PORT, :PORT or unix:PATH, free of other processes", flag, address, err)
	}
	if socket {
		if err := os.Chmod(path, socketMode); err != nil {
			return nil, errors.Join(fmt.Errorf("%s %q: %w", flag, address, err), l.Close())
		}
	}
	return l, nil
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
