package rules

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
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
)

// requestInfo is a request of HTTP or gRPC as rules read it.
type requestInfo struct {
	method    string                       // of HTTP in upper case; of gRPC the full method
	methodKey string                       // the method as a key
	host      string                       // without port and final dot, in lower case
	headers   func() http.Header           // by the canonical name
	client    func() (netip.Addr, error)   // the client's address
	clientKey func() (key string, _ error) // the client's address as a key
	length    int64                        // of the body, -1 if unknown
}

// ofHTTP returns a request of HTTP.
func ofHTTP(r *http.Request, address *httplimit.Address) *requestInfo {
	method := httptarget.Method(r.Method)
	return &requestInfo{
		method: method, methodKey: httptarget.MethodKey(method), host: httptarget.Host(r.Host), length: r.ContentLength,
		headers:   func() http.Header { return r.Header },
		client:    sync.OnceValues(func() (netip.Addr, error) { return address.Client(r) }), // many rules may need it
		clientKey: func() (string, error) { return address.Key(r) },
	}
}

// ofGRPC returns a call of gRPC.
func ofGRPC(ctx context.Context, call grpclimit.Call, from *httplimit.Address) *requestInfo {
	address := grpclimit.Address{Trusted: from.Trusted, Header: from.Header, IPv6Bits: from.IPv6Bits}
	if !strings.HasPrefix(call.Method, "/") { // some servers accept such a method
		call.Method = "/" + call.Method
	}
	r := &requestInfo{
		method: call.Method, methodKey: call.Method, length: -1,
		headers:   sync.OnceValue(func() http.Header { return headersOf(ctx) }),
		client:    sync.OnceValues(func() (netip.Addr, error) { return address.Client(ctx) }),
		clientKey: func() (string, error) { return address.Key(ctx, call) },
	}
	if values := metadata.ValueFromIncomingContext(ctx, ":authority"); len(values) > 0 {
		r.host = httptarget.Host(values[0])
	}
	if message, ok := call.Message.(proto.Message); ok {
		r.length = int64(proto.Size(message))
	}
	return r
}

// headersOf returns the metadata of a call.
func headersOf(ctx context.Context) http.Header {
	headers := make(http.Header)
	md, _ := metadata.FromIncomingContext(ctx) // without metadata there are no headers
	for name, values := range md {
		name = http.CanonicalHeaderKey(name)
		headers[name] = append(headers[name], values...)
	}
	return headers
}
