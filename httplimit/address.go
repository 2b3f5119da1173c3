package httplimit

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Address determines the address of a client.
//
// By default, it is the peer's, [http.Request.RemoteAddr]. If that is in a trusted range, the peer
// is a proxy, and one header names the client. All lines of the header are joined in their order
// and read from the right, where the nearest proxy has written. The first address that is not
// trusted is the client's. Everything left of it is ignored, since the client may have written it.
// Empty elements are skipped.
//
// The client's address is unknown, which is an error, in these cases:
//
//   - A trusted peer sends no such header.
//   - The first entry that is not trusted is no address.
//   - All addresses are trusted.
//   - The peer is on a unix socket, and [UnixSocket] is not trusted.
//
// Addresses may have ports, brackets, quotes (in Forwarded) and zones, which are dropped.
// IPv4-mapped IPv6 addresses become IPv4. So do clients' addresses that NAT64 (64:ff9b::/96) or
// SIIT (::ffff:0:0:0/96) translated.
//
// The zero Address ignores all headers. An Address is safe for concurrent use if it is not changed.
type Address struct {
	// Trusted are the ranges of the proxies. UnixSocket is that of a proxy on a unix socket.
	Trusted []netip.Prefix
	// Header is the header that the proxies write: Forwarded (RFC 7239), X-Real-IP,
	// CF-Connecting-IP ... Empty means X-Forwarded-For.
	Header string
	// IPv6Bits is the prefix length, 1 to 128, of the IPv6 network that counts as one client. 0
	// means 64: most hosts have a /64 of their own.
	IPv6Bits int
	// IPv4Bits is that of IPv4, 1 to 32. 0 means 32: each address is a client.
	IPv4Bits int
}

// UnixSocket returns the range of Address.Trusted that stands for the unix socket on which the server
// listens: every peer that can open the socket is a proxy.
func UnixSocket() netip.Prefix { return guard.UnixSocket }

// Key returns the client's address as a [Key]: its network of IPv4Bits or IPv6Bits, or a whole
// address.
func (a Address) Key(r *http.Request) (string, error) { return guard.Address(a).Key(originOf(r)) }

// Client returns the client's address, or an error if it is unknown.
func (a Address) Client(r *http.Request) (netip.Addr, error) {
	return guard.Address(a).Client(originOf(r))
}

func originOf(r *http.Request) guard.Origin {
	peer, err := guard.ParseAddr(r.RemoteAddr)
	// The address of a unix socket is a path that the client may have chosen.
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if ok && strings.HasPrefix(local.Network(), "unix") {
		peer, err = guard.UnixPeer, nil
	}
	return guard.Origin{Package: "httplimit", Peer: peer, Err: err, Canonical: http.CanonicalHeaderKey,
		Lines: r.Header.Values}
}
