package guard

import "strings"

// Service returns the service of a full method of gRPC: "grpc.health.v1.Health" of
// "/grpc.health.v1.Health/Check".
func Service(method string) string {
	text := strings.TrimPrefix(method, "/")
	return text[:max(0, strings.LastIndexByte(text, '/'))]
}

// Exempt reports whether a full method of gRPC is limited only on demand, as health checks and
// reflection are.
func Exempt(method string) bool {
	service := Service(method)
	return service == "grpc.health.v1.Health" ||
		strings.HasPrefix(service, "grpc.reflection.") && strings.HasSuffix(service, ".ServerReflection")
}
