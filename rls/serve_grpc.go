package rls

import (
	"time"

	"google.golang.org/grpc"
)

// The bounds of a gRPC connection in Serve.
const (
	handshakeTime = 10 * time.Second
	mostStreams   = 1024 // requests at once; a client with more of them opens another connection
)

func grpcBounds() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ConnectionTimeout(handshakeTime), grpc.MaxConcurrentStreams(mostStreams)}
}
