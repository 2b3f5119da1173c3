package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"google.golang.org/grpc/metadata"

	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// Key tells which calls count together. An error, or an empty key, says that it cannot be told.
//
// Whoever chooses the key chooses whose permits are used: a client that can set it at will has as many limiters as it likes. So of
// what a call says of itself only that counts which somebody has checked.
type Key func(ctx context.Context, call Call) (string, error)

// ByIP is the address of the client, or for IPv6 its /64. It is the peer's, whatever metadata says; where the peer is in one of
// the trusted ranges it is what x-forwarded-for says, as [Address] reads it. Address has other metadata and other ranges.
//
// ByIP panics where a range is the zero Prefix.
func ByIP(trusted ...netip.Prefix) Key {
	for _, network := range trusted {
		if !network.IsValid() {
			panic("grpclimit: ByIP: a trusted range is the zero Prefix")
		}
	}
	return Address{Trusted: trusted}.Key
}

// ByMetadata is the value of metadata, an API key for instance: what came with a call to a server, or goes with a
// client's. A call without it, or with several values, has no key and is [ErrInvalidRequest]. Clients write
// metadata as they like: use it behind what checks the value.
func ByMetadata(name string) Key {
	name = strings.ToLower(name)
	return func(ctx context.Context, call Call) (string, error) {
		var values []string
		if call.Outgoing {
			md, _ := metadata.FromOutgoingContext(ctx)
			values = md[name]
		} else {
			values = metadata.ValueFromIncomingContext(ctx, name)
		}
		if len(values) != 1 || strings.TrimSpace(values[0]) == "" {
			return "", guard.Invalidf("grpclimit: %d values of the metadata %s, want one that is not empty", len(values), name)
		}
		return strings.TrimSpace(values[0]), nil
	}
}

// ByMethod is the call's method in full, as "/grpc.health.v1.Health/Check". Clients of a server that has an UnknownServiceHandler, a
// proxy for instance, choose it at will.
func ByMethod() Key {
	return func(_ context.Context, call Call) (string, error) { return call.Method, nil }
}

// ByService is the call's service, as "grpc.health.v1.Health". What is said of [ByMethod] holds for it too.
func ByService() Key {
	return func(_ context.Context, call Call) (string, error) {
		service := call.Service()
		if service == "" {
			return "", guard.Invalidf("grpclimit: the method has no service")
		}
		return service, nil
	}
}

// ByTarget is where a client's call goes, as the ClientConn was told.
func ByTarget() Key {
	return func(_ context.Context, call Call) (string, error) {
		if call.Target == "" {
			return "", errors.New("grpclimit: the call has no target, as a server's has none")
		}
		return call.Target, nil
	}
}

// Hashed is the hash of a key in its place, an API key's for instance: the first 128 bits of its SHA-256, in
// hexadecimal. Names of limiters, and so keys of Redis, outcomes and reports, do not show the key then. A key that
// can be guessed, as a mail address can, can still be found by its hash.
func Hashed(key Key) Key {
	return func(ctx context.Context, call Call) (string, error) {
		text, err := key(ctx, call)
		if err != nil || text == "" {
			return "", err
		}
		return guard.Hash(text), nil
	}
}

// Combined is several keys at once: calls count together that agree in all of them. Where one cannot be told, all cannot.
func Combined(keys ...Key) Key {
	return func(ctx context.Context, call Call) (string, error) {
		texts := make([]string, len(keys))
		for i, key := range keys {
			var err error
			if texts[i], err = key(ctx, call); err != nil {
				return "", err
			}
			if texts[i] == "" {
				return "", fmt.Errorf("grpclimit: key %d of the call is empty", i+1)
			}
		}
		return guard.Join(texts...), nil
	}
}
