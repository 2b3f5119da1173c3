package httplimit

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/internal/door"
)

// Address tells the address of a client.
//
// It is the peer's, [http.Request.RemoteAddr]. Where that is in a trusted range, the peer is a proxy, and one header says for
// whom it speaks. All lines of the header count, joined in their order, and are read from the right, where the proxy
// nearest to here has written: the first address that is not trusted itself is the client. What stands left of it was written by
// the client, or by whoever, and is not looked at.
//
// Where a trusted peer sends no such header, or what stands where the client should is no address, or all are trusted, it cannot
// be told who asks. Addresses may have ports, zones (which are dropped), brackets, and in Forwarded quotes. IPv4 addresses that are
// mapped into IPv6 are IPv4.
//
// The zero Address believes no header. It is safe for concurrent use as long as nobody changes it.
type Address struct {
	Trusted  []netip.Prefix // the proxies
	Header   string         // that they write: "" for X-Forwarded-For, or Forwarded (RFC 7239), X-Real-IP, CF-Connecting-IP ...
	IPv6Bits int            // of a client's network, by which IPv6 counts: 1 to 128, 0 for 64, which one host mostly has to itself
}

// Key is the client's address as a [Key]: IPv4 as it is, IPv6 as its network.
func (a Address) Key(r *http.Request) (string, error) {
	client, err := a.Client(r)
	if err != nil {
		return "", err
	}
	if a.IPv6Bits < 0 || a.IPv6Bits > 128 {
		return "", fmt.Errorf("httplimit: Address.IPv6Bits is %d, want 1 to 128, or 0 for %d", a.IPv6Bits, door.DefaultIPv6Bits)
	}
	return door.AddressKey(client, cmp.Or(a.IPv6Bits, door.DefaultIPv6Bits)), nil
}

// Client is the client's address, or says why it cannot be told.
func (a Address) Client(r *http.Request) (netip.Addr, error) {
	peer, err := parseNode(r.RemoteAddr)
	if err != nil {
		return peer, fmt.Errorf("httplimit: the peer's address: %w", err)
	}
	if !a.trusts(peer) {
		return peer, nil
	}
	header := http.CanonicalHeaderKey(cmp.Or(a.Header, "X-Forwarded-For"))
	lines := r.Header[header]
	for _, line := range slices.Backward(lines) {
		for more := true; more; {
			var last string
			var addr netip.Addr
			if header == "Forwarded" {
				last, line, more = lastElement(line)
				addr, err = parseForwarded(last)
			} else {
				last, line, more = lastOf(line)
				addr, err = parseNode(last)
			}
			if err != nil {
				return netip.Addr{}, fmt.Errorf("httplimit: the header %s of the proxy %v: %w", header, peer, err)
			}
			if !a.trusts(addr) {
				return addr, nil
			}
		}
	}
	if len(lines) == 0 {
		return netip.Addr{}, fmt.Errorf("httplimit: the proxy %v sent no header %s", peer, header)
	}
	return netip.Addr{}, fmt.Errorf("httplimit: the header %s of the proxy %v names none but trusted addresses", header, peer)
}

func (a Address) trusts(addr netip.Addr) bool {
	for _, network := range a.Trusted {
		if network.Contains(addr) {
			return true
		}
		// A range of IPv4 that is written as mapped into IPv6.
		if network.Addr().Is4In6() && network.Bits() >= 96 && netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96).Contains(addr) {
			return true
		}
	}
	return false
}

// lastOf cuts the last element off a list.
func lastOf(list string) (last, rest string, more bool) {
	at := strings.LastIndexByte(list, ',')
	if at < 0 {
		return list, "", false
	}
	return list[at+1:], list[:at], true
}

// parseNode reads an address, which may have a port, a zone and brackets.
func parseNode(text string) (netip.Addr, error) {
	text = strings.Trim(text, " \t")
	bare := text
	if inside, ok := strings.CutPrefix(bare, "["); ok {
		before, port, closed := strings.Cut(inside, "]")
		if !closed || port != "" && !isPort(port) || !strings.Contains(before, ":") {
			return netip.Addr{}, noAddress(text)
		}
		bare = before
	} else if at := strings.IndexByte(bare, ':'); at >= 0 && strings.IndexByte(bare[at+1:], ':') < 0 {
		if !isPort(bare[at:]) {
			return netip.Addr{}, noAddress(text)
		}
		bare = bare[:at]
	}
	addr, err := netip.ParseAddr(bare)
	if err != nil {
		return netip.Addr{}, noAddress(text)
	}
	return door.Plain(addr), nil
}

// isPort says whether a text is a colon and a port: a number, or in Forwarded a name that hides it.
func isPort(text string) bool {
	port, ok := strings.CutPrefix(text, ":")
	if !ok || port == "" {
		return false
	}
	const digits = "0123456789"
	if hidden, ok := strings.CutPrefix(port, "_"); ok {
		return hidden != "" && strings.Trim(hidden, digits+"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-") == ""
	}
	return len(port) <= 5 && strings.Trim(port, digits) == ""
}

func noAddress(text string) error {
	if text == "" {
		return errors.New("an empty text is no address")
	}
	const shown = 64
	if len(text) > shown {
		return fmt.Errorf("%q and %d bytes more are no address", text[:shown], len(text)-shown)
	}
	return fmt.Errorf("%q is no address", text)
}
