package grpclimit

import (
	"context"

	"google.golang.org/grpc"
)

// UnaryServerInterceptor limits the unary calls to a server: each takes its permits of the limiter that choose gives for it, and where
// they are not to be had it does not get to the handler. A call for which choose gives nil passes, and nothing is asked for it;
// one for which it gives an error is decided as the [FailureMode] says. [All] and [Each] are ready-made choices.
//
// The handler finds the [Outcome] in its context with [FromContext]. The documentation of the package lists the statuses of calls that
// do not pass. Calls of the health and reflection services pass, unless [HealthAndReflection] is given.
//
// Of several in a chain each takes its permits before the next is asked, and keeps them where that refuses. [Each] with several
// policies, or a [github.com/rratelimiter/rratelimiter/limit.Join], takes of all or of none.
//
// Each interceptor sees for itself whether Redis is up. It panics where choose is nil.
func UnaryServerInterceptor(choose func(context.Context, Call) (Limiter, error), opts ...Option) grpc.UnaryServerInterceptor {
	g := newGate("UnaryServerInterceptor", choose, opts, DefaultMaxWaiting)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		call := Call{Method: info.FullMethod, Message: req}
		v, r := g.admit(ctx, call)
		if r != nil {
			_ = grpc.SetTrailer(ctx, r.trailer) // a server that is not grpc's has no trailers, and clients of their own
			return nil, r.err
		}
		if v == nil {
			return handler(ctx, req)
		}
		defer g.settle(call, v) // also where the handler panics
		return handler(v, req)
	}
}

// StreamServerInterceptor limits the streams of a server, each at its start, or with [EachMessage] each message that is received.
// All else is as with [UnaryServerInterceptor].
func StreamServerInterceptor(choose func(context.Context, Call) (Limiter, error), opts ...Option) grpc.StreamServerInterceptor {
	g := newGate("StreamServerInterceptor", choose, opts, DefaultMaxWaiting)
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		call := Call{Method: info.FullMethod}
		if g.each {
			return g.serveMessages(srv, ss, call, handler)
		}
		v, r := g.admit(ss.Context(), call)
		if r != nil {
			ss.SetTrailer(r.trailer)
			return r.err
		}
		if v == nil {
			return handler(srv, ss)
		}
		defer g.settle(call, v)
		return handler(srv, &admitted{ss, v})
	}
}

// admitted is a stream whose start was admitted.
type admitted struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *admitted) Context() context.Context { return s.ctx }
