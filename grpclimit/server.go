package grpclimit

import (
	"context"

	"google.golang.org/grpc"

	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
	"github.com/rratelimiter/rratelimiter/internal/httptarget"
	"github.com/rratelimiter/rratelimiter/limit"
)

// UnaryServerInterceptor limits the unary calls to a server: each call takes its permits from the
// limiter that choose returns. It is for calls what a Middleware of package httplimit is for requests. [All] and
// [Each] are ready-made choosers.
//
// The handler finds the [limit.Outcome] in its context with [FromContext]. The documentation of the
// package lists the statuses of refused calls. Calls of the services grpc.health.v1.Health
// and grpc.reflection pass without a call to Redis, since a probe that is denied takes a healthy
// server out of service.
//
// Each interceptor tracks on its own whether Redis is up. It panics if choose is nil.
func UnaryServerInterceptor(choose func(context.Context, Call) (Limiter, error),
	opts ...Option) grpc.UnaryServerInterceptor {
	g := newServer("UnaryServerInterceptor", choose, opts)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		c := call{In: ctx, Call: Call{Method: info.FullMethod, Message: req}}
		v, r := admit(g, c)
		if r != nil {
			_ = grpc.SetTrailer(ctx, r.trailer) // it fails if the server is not grpc's, and has no trailers
			return nil, r.err
		}
		if v == nil {
			return handler(ctx, req)
		}
		ended := 0
		defer func() { v.End(ended) }() // also if the handler panics
		reply, err := handler(v.Context(), req)
		ended = endOf(err)
		return reply, err
	}
}

// StreamServerInterceptor limits the streams of a server, each at its start. Otherwise it is like
// [UnaryServerInterceptor]. A handler can limit the messages of a stream by a limiter of its own.
func StreamServerInterceptor(choose func(context.Context, Call) (Limiter, error),
	opts ...Option) grpc.StreamServerInterceptor {
	g := newServer("StreamServerInterceptor", choose, opts)
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		c := call{In: ss.Context(), Call: Call{Method: info.FullMethod}}
		v, r := admit(g, c)
		if r != nil {
			ss.SetTrailer(r.trailer)
			return r.err
		}
		if v == nil {
			return handler(srv, ss)
		}
		ended := 0
		defer func() { v.End(ended) }()
		err := handler(srv, &serverStream{ss, v.Context()})
		ended = endOf(err)
		return err
	}
}

// serverStream is an admitted stream.
type serverStream struct {
	grpc.ServerStream
	context context.Context //nolint:containedctx // as of any stream
}

// Context returns the context of the handler.
func (s *serverStream) Context() context.Context { return s.context }

// call is a Call in its context, and visit one that is limited.
type (
	call  = gate.Call[Call]
	visit = gate.Visit[call]
)

func newServer(name string, choose func(context.Context, Call) (Limiter, error), opts []Option) *gate.Gate[call] {
	at := "grpclimit: " + name
	s := newSettings(at, choose, opts)
	if skip := s.Skip; !s.LimitsHealth {
		s.Skip = func(c call) bool { return httptarget.Exempt(c.Call.Method) || skip != nil && skip(c) }
	}
	return gate.NewGate(at, s.Options)
}

// admit decides a call to a server. It returns the visit of a call that proceeds, nil if nothing
// limits the call, or the refusal.
func admit(g *gate.Gate[call], c call) (*visit, *refusal) {
	v := g.Admit(c)
	if v == nil || v.Answer.Passes() {
		return v, nil
	}
	v.End(0)
	return nil, newRefusal(v)
}

// FromContext returns the Outcome of a call to a server, for its handler. It returns
// false if the call was not limited. If several interceptors run, it is the Outcome of the
// innermost.
func FromContext(ctx context.Context) (limit.Outcome, bool) {
	return gate.OutcomeOf[call](ctx)
}

// Settle sets the final cost of a call, as httplimit.Settle does. A server's handler calls it with
// the context of the call or stream. After the handler has returned, the interceptor refunds or
// charges the difference. The client waits for that request to Redis too, for at most a [Deadline].
func Settle(ctx context.Context, cost int64) error {
	return gate.SettleIn[call](ctx, "grpclimit", cost)
}
