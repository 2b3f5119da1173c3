package grpclimit

import "github.com/rratelimiter/rratelimiter/internal/guard"

// Call is a call, or one message of a stream. Its metadata and peer are in the context that is
// passed with it.
type Call struct {
	Method   string // the full method: "/grpc.health.v1.Health/Check"
	Message  any    // the request of a unary call, or the stream's message with [EachMessage]; else nil
	Outgoing bool   // a client's call
	Target   string // of a client's call, as of [google.golang.org/grpc.ClientConn.Target]
}

// Service returns the first part of the method, for instance "grpc.health.v1.Health".
func (c Call) Service() string { return guard.Service(c.Method) }
