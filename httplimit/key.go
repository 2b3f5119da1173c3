package httplimit

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Key maps a request to the key that it is limited by. It returns an error or an empty key if the
// key is unknown.
//
// Use only values that were checked before: a client that can choose its key can use the permits of
// other clients, or any number of limiters.
type Key func(*http.Request) (string, error)

// ByIP returns the Key of the client's address: an IPv4 address, or the /64 of an IPv6 address. It
// is the peer's address, and headers are ignored. If the peer is in one of the trusted ranges, the
// client is read from X-Forwarded-For, see [Address]. An Address can use other headers and other
// ranges.
//
// ByIP panics if a range is the zero Prefix.
func ByIP(trusted ...netip.Prefix) Key {
	identity.MustTrust("httplimit: ByIP", trusted)
	return Address{Trusted: trusted}.Key
}

// ByHeader returns the Key of a header's value, for instance an API key. A request without the
// header, with several values or with an empty one has no key and is [limit.ErrInvalidRequest]. So is a
// header that other servers may read in another way:
//   - Connection names it, so that a proxy removes it (RFC 9110, 7.6.1).
//   - A trailer has it too.
//   - Its name was sent with an underscore, as CGI writes it.
//
// Spaces and tabs around the value are dropped, since they are no part of it (RFC 9110, 5.5). In
// Authorization, the scheme is in lower case, with one space behind it. Clients choose their headers: put
// a check of the value in front of it.
func ByHeader(name string) Key {
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (key string, err error) {
		values, clear := httptarget.ReadFields(r.Header, r.Trailer).Get(name)
		if len(values) == 1 && clear {
			if text, _, failed := httptarget.FieldValue(name, values[0]); failed == nil {
				key = text
			}
		}
		if key == "" {
			err = identity.Lackingf("header "+name, "httplimit: header %s: want one value that is not empty: got %d values", name,
				len(values))
		}
		return key, err
	}
}

// ByPathValue returns the Key of a wildcard in the path, see [http.Request.PathValue]. The
// middleware has to be behind the router. A request without the wildcard has no key.
func ByPathValue(name string) Key {
	return func(r *http.Request) (string, error) {
		value := r.PathValue(name)
		if value == "" && strings.Contains(r.Pattern, "{"+name+"...}") {
			return "", identity.Invalidf("httplimit: path wildcard %q: the value is empty", name)
		}
		if value == "" {
			return "", fmt.Errorf("httplimit: path wildcard %q: the pattern has none: put the middleware behind the router",
				name)
		}
		return value, nil
	}
}

// Hashed replaces a key by its hash: the first 128 bits of its SHA-256, in hexadecimal. Then names
// of limiters, keys of Redis, outcomes and reports do not show the key. The hash does not hide keys
// that can be guessed, such as mail addresses.
func Hashed(key Key) Key {
	return func(r *http.Request) (string, error) {
		text, err := key(r)
		if err != nil || text == "" {
			return "", err
		}
		return identity.Hash(text), nil
	}
}

// Combined joins several keys: requests share a limiter if all their keys are equal. If one key is
// unknown, the combined key is unknown.
func Combined(keys ...Key) Key { return identity.Combined("httplimit: Combined", keys) }

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
func UnixSocket() netip.Prefix { return identity.UnixSocket }

// Key returns the client's address as a [Key]: its network of IPv4Bits or IPv6Bits, or a whole
// address.
func (a Address) Key(r *http.Request) (string, error) { return identity.Address(a).Key(originOf(r)) }

// Client returns the client's address, or an error if it is unknown.
func (a Address) Client(r *http.Request) (netip.Addr, error) {
	return identity.Address(a).Client(originOf(r))
}

func originOf(r *http.Request) identity.Origin {
	peer, err := identity.ParseAddr(r.RemoteAddr)
	// The address of a unix socket is a path that the client may have chosen.
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if ok && strings.HasPrefix(local.Network(), "unix") {
		peer, err = identity.UnixPeer, nil
	}
	return identity.Origin{Package: "httplimit", Peer: peer, Err: err, Canonical: http.CanonicalHeaderKey,
		Lines: r.Header.Values} // also of a field that Connection names: the proxy wrote it for this server
}

// Limiter limits requests: a *[rratelimiter.Limiter] or a *[limit.Limiter], or a type that embeds one, which
// counts as that one. [limit.Local] and the pauses of [Transport] need a name that is not empty.
type Limiter = limit.Joinable

// All limits all requests by one limiter. A nil limiter lets them pass. All panics if the
// client, the name or a policy of the limiter is invalid. In mode [limit.Local], requests panic if its
// policies are unknown: a *[rratelimiter.Limiter] needs an InitialRate.
func All(limiter Limiter) func(*http.Request) (Limiter, error) {
	return gate.All[*http.Request]("httplimit: All", limiter)
}

// Each limits the requests of each key by a limiter of their own, with the given policies. For the
// name "web" and the key "192.0.2.1", it is "web:192.0.2.1" for instance. A key of more than 128
// bytes is replaced by its SHA-256. Bytes that have a meaning in names, such as braces, are escaped
// as in a URL. So only a hash tag in the name decides the slot of a Redis Cluster.
//
// An empty or unknown key is an error, so that clients never share a limiter by accident. Two names
// share limiters if one is a prefix of the other up to a colon. An example is the key "v2:x" of
// "web" and the key "x" of "web:v2".
//
// Each panics if the client, the name or a policy is invalid, as the other set-up calls of this
// package do. [limit.Validate] checks policies that come from a configuration.
func Each(client *rratelimiter.Client, name string, key Key, policies ...limit.Policy,
) func(*http.Request) (Limiter, error) {
	at := fmt.Sprintf("httplimit: Each: name %q", name)
	return gate.Each(at, client, name, key, policies)
}

// EachRedisson limits the requests of each key by a limiter of their own in Redisson's layout, which
// Java programs can share: redisson.getRateLimiter(prefix + key). For the prefix "tenant:" and the
// key "42", the name is "tenant:42": nothing is escaped or shortened. So a key that clients choose
// freely is for Each, and braces in a key decide the slot of a Redis Cluster.
//
// A limiter begins with the given rate, as with [rratelimiter.InitialRate]. If Java has set another
// one, that counts. The rate needs a KeepAlive, after which an unused limiter is deleted. In mode
// [limit.Local], the share is one of the given rate.
//
// An empty or unknown key is an error. EachRedisson panics if the client, the prefix or the rate is
// invalid.
func EachRedisson(client *rratelimiter.Client, prefix string, key Key, rate rratelimiter.Rate,
) func(*http.Request) (Limiter, error) {
	at := fmt.Sprintf("httplimit: EachRedisson: prefix %q", prefix)
	return gate.EachRedisson(at, client, prefix, key, rate)
}
