package grpclimit

import "strings"

// Call is what is to be limited: a call, or one message of a stream. What comes with it, metadata and the peer, is in the context
// that goes beside it.
type Call struct {
	Method   string // in full: "/grpc.health.v1.Health/Check"
	Message  any    // the request of a unary call, or the stream's message with [EachMessage]; else nil
	Outgoing bool   // a client's
	Target   string // where a client's call goes, as [google.golang.org/grpc.ClientConn.Target] has it
}

// Service is the first part of the method, "grpc.health.v1.Health" for instance.
func (c Call) Service() string {
	service, _ := c.split()
	return service
}

// split parts a method from its service. Of a text without a slash all is the method.
func (c Call) split() (service, method string) {
	text := strings.TrimPrefix(c.Method, "/")
	at := strings.LastIndexByte(text, '/')
	return text[:max(0, at)], text[at+1:]
}
