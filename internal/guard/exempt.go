package guard

import "strings"

// Exempt reports whether calls of a gRPC service are limited only on demand: those of health checks and of reflection.
func Exempt(service string) bool {
	return service == "grpc.health.v1.Health" ||
		strings.HasPrefix(service, "grpc.reflection.") && strings.HasSuffix(service, ".ServerReflection")
}
