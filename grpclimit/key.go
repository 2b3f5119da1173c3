package grpclimit

import (
	"context"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Key maps a call to the key that it is limited by. It returns an error or an empty key if the key
// is unknown.
//
// Use only values that were checked before: a client that can choose its key can use the permits of
// other clients, or any number of limiters.
type Key func(ctx context.Context, call Call) (string, error)

// ByIP returns the Key of the client's address: an IPv4 address, or the /64 of an IPv6 address. It
// is the peer's address, and metadata is ignored. If the peer is in one of the trusted ranges, the
// client is read from x-forwarded-for, see [Address]. An Address can use other metadata and other
// ranges.
//
// ByIP panics if a range is the zero Prefix.
func ByIP(trusted ...netip.Prefix) Key {
	guard.MustTrust("grpclimit: ByIP", trusted)
	return Address{Trusted: trusted}.Key
}

// ByMetadata returns the Key of a value in the metadata, for instance an API key. It reads the
// incoming metadata of a server's call, and the outgoing metadata of a client's. A call without the
// value, or with several or an empty one, has no key and is [limit.ErrInvalidRequest]. Spaces and tabs
// around a text are dropped, as gRPC allows; a binary value, whose name ends in "-bin", counts as it
// was sent. Clients choose their metadata: put a check of the value in front of it.
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
			} else {
				key = strings.Trim(values[0], " \t")
			}
		}
		if key == "" {
			err = guard.Lackingf("metadata "+name, "grpclimit: metadata %s: want one value that is not empty: got %d values",
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
	return func(ctx context.Context, call Call) (string, error) {
		return guard.Combine("grpclimit: Combined", len(keys), func(i int) (string, error) { return keys[i](ctx, call) })
	}
}

// Call is a call. Its metadata and peer are in the context that is passed with it.
type Call struct {
	Method   string // the full method: "/grpc.health.v1.Health/Check"
	Message  any    // the request of a unary call; nil for a stream
	Outgoing bool   // a client's call
	Target   string // of a client's call, as of [google.golang.org/grpc.ClientConn.Target]
}
