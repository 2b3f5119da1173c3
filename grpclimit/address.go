package grpclimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Address determines the address of a client of a server.
//
// By default, it is the peer's. If that is in a trusted range, the peer is a proxy, and one header
// in its metadata names the client. All values of the header are joined in their order and read
// from the right, where the nearest proxy has written. The first address that is not trusted is the
// client's. Everything left of it is ignored, since the client may have written it.
//
// The client's address is unknown, which is an error, in these cases:
//
//   - A trusted peer sends no such header.
//   - The first entry that is not trusted is no address.
//   - All addresses are trusted.
//   - The peer has no IP address, as on a unix socket or in memory.
//
// Addresses may have ports, brackets, quotes (in Forwarded) and zones, which are dropped.
// IPv4-mapped IPv6 addresses become IPv4. So do clients' addresses that NAT64 (64:ff9b::/96) or
// SIIT (::ffff:0:0:0/96) translated.
//
// The zero Address ignores all headers. An Address is safe for concurrent use if it is not changed.
type Address struct {
	// Trusted are the ranges of the proxies.
	Trusted []netip.Prefix
	// Header is the header that the proxies write: forwarded (RFC 7239), x-real-ip,
	// cf-connecting-ip ... Empty means x-forwarded-for.
	Header string
	// IPv6Bits is the prefix length, 1 to 128, of the IPv6 network that counts as one client. 0
	// means 64: most hosts have a /64 of their own.
	IPv6Bits int
}

// Key returns the client's address as a [Key]: an IPv4 address, the network of an IPv6 address, or
// a whole link-local address.
func (a Address) Key(ctx context.Context, _ Call) (string, error) {
	client, err := a.Client(ctx)
	if err != nil {
		return "", err
	}
	key, err := guard.AddressKey(client, a.IPv6Bits)
	if err != nil {
		return "", fmt.Errorf("grpclimit: %w", err)
	}
	return key, nil
}

// Client returns the client's address from the context of a call to a server, or an error if it is
// unknown.
func (a Address) Client(ctx context.Context) (netip.Addr, error) {
	proxy, err := peerOf(ctx)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("grpclimit: the peer's address: %w", err)
	}
	header := strings.ToLower(cmp.Or(a.Header, "x-forwarded-for"))
	lines := func(header string) []string { return metadata.ValueFromIncomingContext(ctx, header) }
	client, err := guard.ClientOf(proxy, a.Trusted, header, lines)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("grpclimit: %w", err)
	}
	return client, nil
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
