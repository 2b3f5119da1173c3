package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Address determines the address of a client of a server, as [httplimit.Address] does. Its Header is
// the name of metadata. A peer without an IP address, as in memory, is an error, and so is one on a unix
// socket unless [httplimit.UnixSocket] is trusted.
type Address httplimit.Address

// Key returns the client's address as a [Key]: its network of IPv4Bits or IPv6Bits, or a whole
// address.
func (a Address) Key(ctx context.Context, _ Call) (string, error) {
	return guard.Address(a).Key(originOf(ctx))
}

// Client returns the client's address from the context of a call to a server, or an error if it is
// unknown.
func (a Address) Client(ctx context.Context) (netip.Addr, error) {
	return guard.Address(a).Client(originOf(ctx))
}

func originOf(ctx context.Context) guard.Origin {
	addr, err := peerOf(ctx)
	return guard.Origin{Package: "grpclimit", Peer: addr, Err: err, Canonical: strings.ToLower,
		Lines: func(header string) []string { return metadata.ValueFromIncomingContext(ctx, header) }}
}

// peerOf returns the address of the peer. The address of a unix socket is a path that the client
// may have chosen.
func peerOf(ctx context.Context) (netip.Addr, error) {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return netip.Addr{}, errors.New("the context is of no call to a server")
	}
	var addr netip.Addr
	switch end := p.Addr.(type) {
	case *net.TCPAddr:
		addr = end.AddrPort().Addr()
	case *net.UDPAddr:
		addr = end.AddrPort().Addr()
	default: // a server behind net/http has its own type
		network := end.Network()
		if local := p.LocalAddr; local != nil && strings.HasPrefix(local.Network(), "unix") {
			network = local.Network() // the server reports "tcp" for the peer
		}
		if strings.HasPrefix(network, "unix") {
			return guard.UnixPeer, nil
		}
		if !strings.HasPrefix(network, "tcp") && !strings.HasPrefix(network, "udp") {
			return addr, fmt.Errorf("a peer of the network %q has none", network)
		}
		return guard.ParseAddr(end.String())
	}
	if !addr.IsValid() {
		return addr, fmt.Errorf("%q is none", p.Addr)
	}
	return guard.Plain(addr), nil
}
