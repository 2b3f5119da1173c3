// Package identity determines by what a client is limited: its address, behind trusted proxies too, and keys, which
// become parts of names of limiters.
package identity

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/rratelimiter/rratelimiter/limit"
)

// defaultIPv6Bits is the prefix length of the network that most hosts have to themselves. A host
// can choose any address in it.
const defaultIPv6Bits = 64

// Plain returns an address without its zone, and an IPv4-mapped address as IPv4.
func Plain(addr netip.Addr) netip.Addr { return addr.WithZone("").Unmap() }

// translations are the IPv6 networks whose addresses have an IPv4 address in their last 32 bits:
// NAT64 (RFC 6052) and SIIT (RFC 7915).
var translations = []netip.Prefix{netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("::ffff:0:0:0/96")}

// IsTranslation reports whether a network is one of translations, or part of one.
func IsTranslation(network netip.Prefix) bool {
	return slices.ContainsFunc(translations, func(t netip.Prefix) bool {
		return network.Bits() >= t.Bits() && t.Contains(network.Addr())
	})
}

// Client returns the address that a client is limited by: plain, and as IPv4 if it is a
// translation. Do not use it to decide whether a proxy is trusted: other networks may have
// translated addresses too.
func Client(addr netip.Addr) netip.Addr {
	addr = Plain(addr)
	if !addr.Is6() || !IsTranslation(netip.PrefixFrom(addr, addr.BitLen())) {
		return addr
	}
	bytes := addr.As16()
	return netip.AddrFrom4([4]byte(bytes[12:]))
}

// AddressKey returns the key of an address of [Client]: its network with a prefix of as many bits, 0 for
// 32 of IPv4 and for defaultIPv6Bits. A link-local address is a key of its own, since all hosts of a
// link share one network.
func AddressKey(addr netip.Addr, ipv4Bits, ipv6Bits int) (string, error) {
	switch {
	case ipv4Bits < 0 || ipv4Bits > 32:
		return "", fmt.Errorf("an Address.IPv4Bits of %d, want 1 to 32, or 0 for 32", ipv4Bits)
	case ipv6Bits < 0 || ipv6Bits > 128:
		return "", fmt.Errorf("an Address.IPv6Bits of %d, want 1 to 128, or 0 for %d", ipv6Bits, defaultIPv6Bits)
	}
	bits := cmp.Or(ipv6Bits, defaultIPv6Bits)
	if addr.Is4() {
		bits = cmp.Or(ipv4Bits, 32)
	}
	if bits >= addr.BitLen() || addr.IsLinkLocalUnicast() {
		return addr.String(), nil
	}
	network, err := addr.Prefix(bits)
	return network.String(), err
}

// UnixPeer stands for the peer of a unix socket, which has no address: no peer has the unspecified one.
// UnixSocket is the range that has only it.
var (
	UnixPeer   = netip.IPv6Unspecified()
	UnixSocket = netip.PrefixFrom(UnixPeer, UnixPeer.BitLen())
)

// Contains reports whether an address is in one of the networks.
func Contains(networks []netip.Prefix, addr netip.Addr) bool {
	for _, network := range networks {
		if network.Contains(addr) {
			return true
		}
		// The network may be an IPv4 range in IPv4-mapped form.
		if network.Addr().Is4In6() && network.Bits() >= 96 && netip.PrefixFrom(network.Addr().Unmap(),
			network.Bits()-96).Contains(addr) {
			return true
		}
	}
	return false
}

// Address determines the address of a client, see httplimit.Address.
type Address struct {
	Trusted  []netip.Prefix
	Header   string // X-Forwarded-For by default
	IPv6Bits int
	IPv4Bits int
}

// Origin is where a request comes from.
type Origin struct {
	Package   string // that errors begin with
	Peer      netip.Addr
	Err       error // if the peer's address is unknown
	Canonical func(header string) string
	Lines     func(header string) []string
}

// Key returns the key of the client's address, see [AddressKey].
func (a Address) Key(from Origin) (string, error) {
	client, err := a.Client(from)
	if err != nil {
		return "", err
	}
	key, err := AddressKey(client, a.IPv4Bits, a.IPv6Bits)
	if err != nil {
		return "", fmt.Errorf("%s: %w", from.Package, err)
	}
	return key, nil
}

// Client returns the address that a client is limited by, see [Client]: the peer, or if that is a
// trusted proxy, the client that the lines of a header name.
func (a Address) Client(from Origin) (client netip.Addr, err error) {
	switch {
	case from.Err != nil:
		err = fmt.Errorf("the peer's address: %w", from.Err)
	case len(a.Trusted) > 0 && Contains(a.Trusted, from.Peer):
		header := from.Canonical(cmp.Or(a.Header, "X-Forwarded-For"))
		client, err = behind(from.Peer, a.Trusted, header, from.Lines(header))
	case from.Peer == UnixPeer:
		err = errors.New("the peer is on a unix socket, which has no address and is not trusted")
	default:
		client = from.Peer
	}
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s: %w", from.Package, err)
	}
	return Client(client), nil
}

// MustTrust panics if a trusted range is the zero Prefix. The text begins with the call.
func MustTrust(call string, trusted []netip.Prefix) {
	for _, network := range trusted {
		if !network.IsValid() {
			panic(call + ": a trusted range is the zero Prefix: pass valid ranges")
		}
	}
}

// behind returns the client of a trusted proxy, from the lines of a header: the first address from
// the right that is not trusted. The header is Forwarded (RFC 7239) or a list of addresses, whose empty
// elements do not count (RFC 9110, 5.6.1).
func behind(proxy netip.Addr, trusted []netip.Prefix, header string, lines []string) (netip.Addr, error) {
	cutLast, parse := lastOf, ParseAddr
	if strings.EqualFold(header, "Forwarded") {
		cutLast, parse = lastElement, parseForwarded
	}
	found := false
	for _, line := range slices.Backward(lines) {
		for more := true; more; {
			var last string
			last, line, more = cutLast(line)
			if strings.Trim(last, " \t") == "" {
				continue
			}
			found = true
			addr, err := parse(last)
			if err != nil {
				return netip.Addr{}, fmt.Errorf("the header %s of the proxy %v: %w", header, proxy, err)
			}
			if !Contains(trusted, addr) {
				return addr, nil
			}
		}
	}
	if !found {
		return netip.Addr{}, fmt.Errorf("the proxy %v sent no address in the header %s", proxy, header)
	}
	return netip.Addr{}, fmt.Errorf("the header %s of the proxy %v has only trusted addresses", header, proxy)
}

func lastOf(list string) (last, rest string, more bool) {
	at := strings.LastIndexByte(list, ',')
	if at < 0 {
		return list, "", false
	}
	return list[at+1:], list[:at], true
}

// ParseAddr parses an address, which may have a port, a zone and brackets. The port may be an obfuscated name of
// Forwarded.
func ParseAddr(text string) (netip.Addr, error) {
	text = strings.Trim(text, " \t")
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._-"
	with := text
	if before, hidden, ok := strings.Cut(text, ":_"); ok && hidden != "" && strings.Trim(hidden, letters) == "" {
		with = before + ":0"
	} else if strings.HasSuffix(text, "]") {
		with += ":0"
	}
	if addr, err := netip.ParseAddrPort(with); err == nil {
		return Plain(addr.Addr()), nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, noAddress(text)
	}
	return Plain(addr), nil
}

func noAddress(text string) error {
	if text == "" {
		return errors.New("an empty string is no address")
	}
	const shown = 64
	if len(text) > shown {
		return fmt.Errorf("%q and %d bytes more are no address", text[:shown], len(text)-shown)
	}
	return fmt.Errorf("%q is no address", text)
}

// The header Forwarded of RFC 7239 has elements separated by commas, each of pairs separated by
// semicolons: for="[2001:db8::1]:4711";proto=https. Values may be quoted strings, which may contain
// commas, semicolons and escaped quotes.

// lastElement splits the last element off a list. It reads from the right, so that a client's text
// at the left, such as an open quote, does not change the proxy's text behind it.
func lastElement(list string) (last, rest string, more bool) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case list[i] == '"' && !inQuotedPair(list, i):
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return list[i+1:], list[:i], true
		}
	}
	return list, "", false
}

// inQuotedPair reports whether an odd number of backslashes precedes a byte of a quoted string.
func inQuotedPair(text string, i int) bool {
	n := 0
	for ; i-n > 0 && text[i-n-1] == '\\'; n++ {
	}
	return n%2 == 1
}

// parseForwarded parses the address in an element's for=.
func parseForwarded(element string) (netip.Addr, error) {
	var node string
	found := false
	for rest := element; rest != ""; {
		name, value, behind, err := cutPair(rest)
		if err != nil {
			return netip.Addr{}, err
		}
		if strings.EqualFold(name, "for") {
			if found {
				return netip.Addr{}, errors.New("an element has for= twice")
			}
			node, found = value, true
		}
		rest = behind
	}
	if !found {
		return netip.Addr{}, errors.New("an element has no for=")
	}
	if node != strings.Trim(node, " \t") {
		return netip.Addr{}, noAddress(node)
	}
	return ParseAddr(node)
}

func cutPair(text string) (name, value, rest string, err error) {
	malformed := errors.New("an element is malformed")
	name, value, ok := strings.Cut(text, "=")
	if name = strings.Trim(name, " \t"); !ok || name == "" {
		return "", "", "", malformed
	}
	if !strings.HasPrefix(value, `"`) {
		value, rest, _ = strings.Cut(value, ";")
		if value = strings.TrimRight(value, " \t"); strings.ContainsAny(value, "\"\\") {
			return "", "", "", malformed
		}
		return name, value, rest, nil
	}
	var plain strings.Builder
	for i := 1; i < len(value); i++ {
		switch value[i] {
		case '\\':
			if i++; i == len(value) {
				return "", "", "", malformed
			}
			plain.WriteByte(value[i])
		case '"':
			rest = strings.Trim(value[i+1:], " \t")
			if behind, ok := strings.CutPrefix(rest, ";"); ok {
				return name, plain.String(), behind, nil
			} else if rest != "" {
				return "", "", "", malformed
			}
			return name, plain.String(), "", nil
		default:
			plain.WriteByte(value[i])
		}
	}
	return "", "", "", malformed
}

// Name returns the name of the limiter of a key, under a name that all keys of a middleware share.
func Name(shared, key string) string { return shared + ":" + EncodeKey(key) }

// EncodeKey encodes a key for names of limiters. Different keys stay different. The result has no braces
// and no control bytes, which are percent-encoded. It has at most 128 bytes: a longer key is
// replaced by its SHA-256.
func EncodeKey(key string) string {
	if len(key) > longestKey {
		return hashed(key)
	}
	if !strings.ContainsFunc(key, isEscaped) {
		return key
	}
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; !isEscaped(rune(c)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() > longestKey {
		return hashed(key)
	}
	return b.String()
}

// hashed returns the replacement of a long key.
func hashed(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "%sha256:" + hex.EncodeToString(sum[:]) // no escape begins with an s
}

const longestKey = 128

func isEscaped(r rune) bool { return r <= ' ' || r >= 0x7f || r == '{' || r == '}' || r == '%' }

// Hash returns a key that hides another one: the first 128 bits of its SHA-256.
func Hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

var joinEscapes = strings.NewReplacer(`|`, `\|`, `\`, `\\`)

// Join joins several keys into one. Different keys stay different.
func Join(keys ...string) string {
	escaped := make([]string, len(keys))
	for i, key := range keys {
		escaped[i] = joinEscapes.Replace(key)
	}
	return strings.Join(escaped, "|")
}

// Combined returns a function that joins the keys of a request. If one is unknown or empty, that is an error, whose
// text begins with the call.
func Combined[R any, K ~func(R) (string, error)](call string, keys []K) func(R) (string, error) {
	return func(r R) (string, error) {
		texts := make([]string, len(keys))
		for i, key := range keys {
			var err error
			if texts[i], err = key(r); err != nil {
				return "", err
			}
			if texts[i] == "" {
				return "", fmt.Errorf("%s: key %d is empty", call, i+1)
			}
		}
		return Join(texts...), nil
	}
}

// Invalidf returns an error that describes what a request lacks, and that is [limit.ErrInvalidRequest].
func Invalidf(format string, values ...any) error {
	return &invalidError{fmt.Sprintf(format, values...), ""}
}

// Lackingf is Invalidf for a request that lacks a header or metadata, which its client may learn.
func Lackingf(field, format string, values ...any) error {
	return &invalidError{fmt.Sprintf(format, values...), field}
}

// LackOf returns the header or metadata that a request lacks, "" if the error is about none.
func LackOf(err error) string {
	var invalid *invalidError
	if errors.As(err, &invalid) {
		return invalid.field
	}
	return ""
}

type invalidError struct {
	text  string
	field string // that the request lacks; not its value
}

func (e *invalidError) Error() string { return e.text }
func (e *invalidError) Unwrap() error { return limit.ErrInvalidRequest }
