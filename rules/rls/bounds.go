package rls

import (
	"context"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// The bounds of a request. A decoded request takes up to a hundred times its encoded size.
const (
	maxRequest     = 64 << 10 // bytes
	maxDescriptors = 256
	maxEntries     = 64 // of a descriptor
)

// checkSize returns an error for a request with too many parts.
func checkSize(request *ratelimit.RateLimitRequest) error {
	if n := len(request.GetDescriptors()); n > maxDescriptors {
		return invalidf("the request has %d descriptors, want at most %d", n, maxDescriptors)
	}
	for i, d := range request.GetDescriptors() {
		if n := len(d.GetEntries()); n > maxEntries {
			return invalidf("descriptor %d has %d entries, want at most %d", i, n, maxEntries)
		}
	}
	return nil
}

// serviceDesc is the rate limit service, with a check of each request's size before it is decoded.
var serviceDesc = func() grpc.ServiceDesc {
	bounded := ratelimit.RateLimitService_ServiceDesc
	method := bounded.Methods[0] // its only one
	generated := method.Handler
	method.Handler = func(srv any, ctx context.Context, decode func(any) error,
		interceptor grpc.UnaryServerInterceptor) (any, error) {
		return generated(srv, ctx, func(request any) error { return decodeBounded(decode, request) }, interceptor)
	}
	bounded.Methods = []grpc.MethodDesc{method}
	return bounded
}()

// decodeBounded decodes a request after a check of its size. It decodes into a message without
// fields first, which keeps the bytes as they are.
func decodeBounded(decode func(any) error, request any) error {
	var received emptypb.Empty
	if err := decode(&received); err != nil {
		return err
	}
	text := received.ProtoReflect().GetUnknown()
	if len(text) > maxRequest {
		return invalidf("the request has %d bytes, want at most %d (%d KiB)", len(text), maxRequest, maxRequest>>10)
	}
	message, ok := request.(proto.Message)
	if !ok || proto.Unmarshal(text, message) != nil {
		return invalidf("the request is no RateLimitRequest")
	}
	return nil
}

const (
	maxLimits = 256 // of one request, in Redis
	maxHits   = 1 << 53
)
