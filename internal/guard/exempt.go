package guard

import "strings"

// Exempt reports whether a gRPC service is limited only on demand, as health checks and reflection
// are.
func Exempt(service string) bool {
	return service == "grpc.health.v1.Health" ||
		strings.HasPrefix(service, "grpc.reflection.") && strings.HasSuffix(service, ".ServerReflection")
}
