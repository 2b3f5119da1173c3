package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/guard/identity"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/limit"
)

// Key maps a call to the key that it is limited by. It returns an error or an empty key if the key
// is unknown.
//
// Use only values that were checked before: a client that can choose its key can use the permits of
// other clients, or any number of limiters.
type Key func(ctx context.Context, call Call) (string, error)

// ByIP returns the Key of the client's address, as httplimit.ByIP does, with x-forwarded-for of the metadata
// of a peer in a trusted range. It panics if a range is the zero Prefix.
func ByIP(trusted ...netip.Prefix) Key {
	identity.MustTrust("grpclimit: ByIP", trusted)
	return Address{Trusted: trusted}.Key
}

// ByMetadata returns the Key of a value in the metadata, for instance an API key. It reads the
// incoming metadata of a server's call, and the outgoing metadata of a client's. A call without the
// value, or with several or an empty one, has no key and is [limit.ErrInvalidRequest]. Spaces and tabs
// around a text are dropped, as gRPC allows. The scheme of authorization is in lower case, with one space
// behind it. A binary value, whose name ends in "-bin", counts as it was sent. Clients choose
// their metadata: put a check of the value in front of it.
func ByMetadata(name string) Key {
	name = strings.ToLower(name)
	return func(ctx context.Context, call Call) (key string, err error) {
		var values []string
		if call.Outgoing {
			md, _ := metadata.FromOutgoingContext(ctx)
			values = md[name]
		} else {
			values = metadata.ValueFromIncomingContext(ctx, name)
		}
		if len(values) == 1 {
			if strings.HasSuffix(name, "-bin") {
				key = values[0]
			} else if text, _, failed := httptarget.FieldValue(http.CanonicalHeaderKey(name), values[0]); failed == nil {
				key = text
			}
		}
		if key == "" {
			err = identity.Lackingf("metadata "+name, "grpclimit: metadata %s: want one value that is not empty: got %d values",
				name, len(values))
		}
		return key, err
	}
}

// ByMethod returns the Key of the full method, such as "/grpc.health.v1.Health/Check". On a server
// with an UnknownServiceHandler, such as a proxy, clients can choose any method.
func ByMethod() Key {
	return func(_ context.Context, call Call) (string, error) { return call.Method, nil }
}

// Combined joins several keys: calls share a limiter if all their keys are equal. If one key is
// unknown, the combined key is unknown.
func Combined(keys ...Key) Key {
	all := make([]func(call) (string, error), len(keys))
	for i, key := range keys {
		all[i] = together(key)
	}
	return apart(identity.Combined("grpclimit: Combined", all))
}

// Call is a call. Its metadata and peer are in the context that is passed with it.
type Call struct {
	Method   string // the full method: "/grpc.health.v1.Health/Check"
	Message  any    // the request of a unary call; nil for a stream
	Outgoing bool   // a client's call
	Target   string // of a client's call, as of [google.golang.org/grpc.ClientConn.Target]
}

// Address determines the address of a client of a server, as httplimit.Address does. A peer without an IP
// address, as in memory, is an error, and so is one on a unix socket unless httplimit.UnixSocket is trusted.
type Address struct {
	Trusted  []netip.Prefix // the ranges of the proxies
	Header   string         // the metadata that the proxies write; empty means x-forwarded-for
	IPv6Bits int            // the prefix length of the IPv6 network that counts as one client; 0 means 64
	IPv4Bits int            // that of IPv4; 0 means 32
}

// Key returns the client's address as a [Key]: its network of IPv4Bits or IPv6Bits, or a whole
// address.
func (a Address) Key(ctx context.Context, _ Call) (string, error) {
	return identity.Address(a).Key(originOf(ctx))
}

// Client returns the client's address from the context of a call to a server, or an error if it is
// unknown.
func (a Address) Client(ctx context.Context) (netip.Addr, error) {
	return identity.Address(a).Client(originOf(ctx))
}

func originOf(ctx context.Context) identity.Origin {
	addr, err := peerOf(ctx)
	return identity.Origin{Package: "grpclimit", Peer: addr, Err: err, Canonical: strings.ToLower,
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
			return identity.UnixPeer, nil
		}
		if !strings.HasPrefix(network, "tcp") && !strings.HasPrefix(network, "udp") {
			return addr, fmt.Errorf("a peer of the network %q has none", network)
		}
		return identity.ParseAddr(end.String())
	}
	if !addr.IsValid() {
		return addr, fmt.Errorf("%q is none", p.Addr)
	}
	return identity.Plain(addr), nil
}

// Limiter limits calls: a *[rratelimiter.Limiter] or a *[limit.Limiter], or a type that embeds one, which counts
// as that one. [limit.Local] and pauses need a name that is not empty.
type Limiter = limit.Joinable

// All limits all calls by one limiter. A nil limiter lets them pass. All panics if the
// client, the name or a policy of the limiter is invalid.
func All(limiter Limiter) func(context.Context, Call) (Limiter, error) {
	return apart(gate.All[call]("grpclimit: All", limiter))
}

// Each limits the calls of each key by a limiter of their own, with the given policies, as
// httplimit.Each does. For the name "api" and the key "192.0.2.1", it is "api:192.0.2.1". An empty or
// unknown key is an error. Each panics if the client, the name or a policy is invalid.
func Each(client *rratelimiter.Client, name string, key Key, policies ...limit.Policy,
) func(context.Context, Call) (Limiter, error) {
	at := fmt.Sprintf("grpclimit: Each: name %q", name)
	return apart(gate.Each(at, client, name, together(key), policies))
}

// EachRedisson limits the calls of each key by a limiter of their own in Redisson's layout, as
// httplimit.EachRedisson does: redisson.getRateLimiter(prefix + key). An empty or unknown key is an
// error. EachRedisson panics if the client, the prefix or the rate is invalid.
func EachRedisson(client *rratelimiter.Client, prefix string, key Key, rate rratelimiter.Rate,
) func(context.Context, Call) (Limiter, error) {
	at := fmt.Sprintf("grpclimit: EachRedisson: prefix %q", prefix)
	return apart(gate.EachRedisson(at, client, prefix, together(key), rate))
}

// together returns a function of a call and its context as one of both. It returns nil for nil.
func together[T any](f func(context.Context, Call) (T, error)) func(call) (T, error) {
	if f == nil {
		return nil
	}
	return func(c call) (T, error) { return f(c.In, c.Call) }
}

// apart returns a function of both as one of a call and its context.
func apart[T any](f func(call) (T, error)) func(context.Context, Call) (T, error) {
	return func(ctx context.Context, c Call) (T, error) { return f(call{In: ctx, Call: c}) }
}
