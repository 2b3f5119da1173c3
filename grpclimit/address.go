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

// Address tells the address of a client of a server.
//
// It is the peer's. Where that is in a trusted range, the peer is a proxy, and one header of its metadata says for whom it speaks. All
// values of the header count, joined in their order, and are read from the right, where the proxy nearest to here has written: the
// first address that is not trusted itself is the client. What stands left of it was written by the client, or by whoever,
// and is not looked at.
//
// Where a trusted peer sends no such header, or what stands where the client should is no address, or all are
// trusted, it cannot be told who asks; nor where the peer is no address of the internet, as on unix sockets and in
// memory. Addresses may have ports, zones (which are dropped), brackets, and in Forwarded quotes. IPv4 addresses
// that are mapped into IPv6 are IPv4. So are clients' addresses that NAT64 (64:ff9b::/96) or SIIT
// (::ffff:0:0:0/96) translated.
//
// The zero Address believes no header. It is safe for concurrent use as long as nobody changes it.
type Address struct {
	Trusted  []netip.Prefix // the proxies
	Header   string         // that they write: "" for x-forwarded-for, or forwarded (RFC 7239), x-real-ip, cf-connecting-ip ...
	IPv6Bits int            // of a client's network, by which IPv6 counts: 1 to 128, 0 for 64, which one host mostly has to itself
}

// Key is the client's address as a [Key]: IPv4 as it is, IPv6 as its network, unless it is link-local.
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

// Client is the client's address, by the context of a call to a server, or says why it cannot be told.
func (a Address) Client(ctx context.Context) (netip.Addr, error) {
	proxy, err := peerOf(ctx)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("grpclimit: the peer's address: %w", err)
	}
	if !guard.Trusts(a.Trusted, proxy) {
		return guard.Client(proxy), nil
	}
	header := strings.ToLower(cmp.Or(a.Header, "x-forwarded-for"))
	client, err := guard.Behind(proxy, a.Trusted, header, metadata.ValueFromIncomingContext(ctx, header))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("grpclimit: %w", err)
	}
	return guard.Client(client), nil
}

// peerOf is the address of the other end. A unix socket's is a path that the client may have chosen, and nobody's address however
// it reads.
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
	default: // a server behind net/http has one of its own
		network := end.Network()
		if local := p.LocalAddr; local != nil && strings.HasPrefix(local.Network(), "unix") {
			network = local.Network() // which that server calls tcp
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
