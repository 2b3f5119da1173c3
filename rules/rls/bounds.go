package rls

import (
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The bounds of a request. A decoded request takes up to a hundred times its encoded size.
const (
	maxRequest     = 64 << 10 // bytes
	maxDescriptors = 256
	maxEntries     = 64  // of a descriptor
	maxLimits      = 256 // of one request, in Redis
	maxHits        = 1 << 53
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

// invalidf returns the error of an invalid request.
func invalidf(format string, values ...any) error {
	return status.Errorf(codes.InvalidArgument, "rls: "+format, values...)
}
