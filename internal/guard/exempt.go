package guard

import "strings"

// Exempt reports whether a full method of gRPC, as "/grpc.health.v1.Health/Check", is limited only on
// demand: health checks and reflection.
func Exempt(method string) bool {
	service := strings.TrimPrefix(method, "/")
	service = service[:max(0, strings.LastIndexByte(service, '/'))]
	return service == "grpc.health.v1.Health" ||
		strings.HasPrefix(service, "grpc.reflection.") && strings.HasSuffix(service, ".ServerReflection")
}
