package httplimit

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Address tells the address of a client.
//
// It is the peer's, [http.Request.RemoteAddr]. Where that is in a trusted range, the peer is a proxy, and one header says for
// whom it speaks. All lines of the header count, joined in their order, and are read from the right, where the proxy
// nearest to here has written: the first address that is not trusted itself is the client. What stands left of it was written by
// the client, or by whoever, and is not looked at.
//
// Where a trusted peer sends no such header, or what stands where the client should is no address, or all are
// trusted, it cannot be told who asks; nor where the peer is on a unix socket. Addresses may have ports, zones
// (which are dropped), brackets, and in Forwarded quotes. IPv4 addresses that are mapped into IPv6 are IPv4. So
// are clients' addresses that NAT64 (64:ff9b::/96) or SIIT (::ffff:0:0:0/96) translated.
//
// The zero Address believes no header. It is safe for concurrent use as long as nobody changes it.
type Address struct {
	Trusted  []netip.Prefix // the proxies
	Header   string         // that they write: "" for X-Forwarded-For, or Forwarded (RFC 7239), X-Real-IP, CF-Connecting-IP ...
	IPv6Bits int            // of a client's network, by which IPv6 counts: 1 to 128, 0 for 64, which one host mostly has to itself
}

// Key is the client's address as a [Key]: IPv4 as it is, IPv6 as its network, unless it is link-local.
func (a Address) Key(r *http.Request) (string, error) {
	client, err := a.Client(r)
	if err != nil {
		return "", err
	}
	key, err := guard.AddressKey(client, a.IPv6Bits)
	if err != nil {
		return "", fmt.Errorf("httplimit: %w", err)
	}
	return key, nil
}

// Client is the client's address, or says why it cannot be told.
func (a Address) Client(r *http.Request) (netip.Addr, error) {
	// A unix socket's is a path that the client may have chosen, and nobody's address however it reads.
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && strings.HasPrefix(local.Network(), "unix") {
		return netip.Addr{}, fmt.Errorf("httplimit: the peer's address: a peer of the network %q has none", local.Network())
	}
	peer, err := guard.ParseAddr(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("httplimit: the peer's address: %w", err)
	}
	if !guard.Trusts(a.Trusted, peer) {
		return guard.Client(peer), nil
	}
	header := http.CanonicalHeaderKey(cmp.Or(a.Header, "X-Forwarded-For"))
	client, err := guard.Behind(peer, a.Trusted, header, r.Header[header])
	if err != nil {
		return netip.Addr{}, fmt.Errorf("httplimit: %w", err)
	}
	return guard.Client(client), nil
}
