package grpcrules

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/rules/internal/ruleset"
)

func requestOf(ctx context.Context, call grpclimit.Call, from httplimit.Address) *ruleset.Request {
	address := grpclimit.Address(from)
	if !strings.HasPrefix(call.Method, "/") { // some servers accept such a method
		call.Method = "/" + call.Method
	}
	r := &ruleset.Request{
		Method: call.Method, Length: -1,
		Headers:   sync.OnceValue(func() http.Header { return headersOf(ctx) }),
		Client:    sync.OnceValues(func() (netip.Addr, error) { return address.Client(ctx) }), // many rules may need it
		ClientKey: sync.OnceValues(func() (string, error) { return address.Key(ctx, call) }),
	}
	if message, ok := call.Message.(proto.Message); ok {
		r.Length = int64(proto.Size(message))
	}
	return r
}

func headersOf(ctx context.Context) http.Header {
	headers := make(http.Header)
	md, _ := metadata.FromIncomingContext(ctx) // without metadata there are no headers
	for name, values := range md {
		name = http.CanonicalHeaderKey(name)
		headers[name] = append(headers[name], values...)
	}
	return headers
}
