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
	mostRequest     = 64 << 10 // bytes
	mostDescriptors = 256
	mostEntries     = 64 // of a descriptor
)

// checkSize returns an error for a request with too many parts.
func checkSize(request *ratelimit.RateLimitRequest) error {
	if n := len(request.GetDescriptors()); n > mostDescriptors {
		return invalidf("the request has %d descriptors, want at most %d", n, mostDescriptors)
	}
	for i, d := range request.GetDescriptors() {
		if n := len(d.GetEntries()); n > mostEntries {
			return invalidf("descriptor %d has %d entries, want at most %d", i, n, mostEntries)
		}
	}
	return nil
}

// serviceDesc is the rate limit service, with a check of each request's size before it is decoded.
var serviceDesc = func() grpc.ServiceDesc {
	desc := ratelimit.RateLimitService_ServiceDesc
	desc.Methods = []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: shouldRateLimit}}
	return desc
}()

// shouldRateLimit is the generated handler with a bound on the bytes of a request.
func shouldRateLimit(
	srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor,
) (any, error) {
	request, err := bounded(decode)
	if err != nil {
		return nil, err
	}
	service, _ := srv.(ratelimit.RateLimitServiceServer) // gRPC has checked it
	if interceptor == nil {
		return service.ShouldRateLimit(ctx, request)
	}
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: ratelimit.RateLimitService_ShouldRateLimit_FullMethodName}
	return interceptor(ctx, request, info, func(ctx context.Context, request any) (any, error) {
		req, ok := request.(*ratelimit.RateLimitRequest)
		if !ok {
			return nil, invalidf("an interceptor made a %T of the request", request)
		}
		return service.ShouldRateLimit(ctx, req)
	})
}

// bounded decodes a request after a check of its size. It decodes into a message without fields
// first, which keeps the bytes as they are.
func bounded(decode func(any) error) (*ratelimit.RateLimitRequest, error) {
	var received emptypb.Empty
	if err := decode(&received); err != nil {
		return nil, err
	}
	text := received.ProtoReflect().GetUnknown()
	if len(text) > mostRequest {
		return nil, invalidf("the request has %d bytes, want at most %d (%d KiB)", len(text), mostRequest, mostRequest>>10)
	}
	request := new(ratelimit.RateLimitRequest)
	if err := proto.Unmarshal(text, request); err != nil {
		return nil, invalidf("the request is no RateLimitRequest")
	}
	return request, nil
}
