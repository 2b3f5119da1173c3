package rules

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
)

// UnaryServerInterceptor limits the unary calls to a server by the rules whose match has grpc, and
// by those without a match. It decides like [Set.Middleware]. Headers of rules are metadata,
// content_length is the size of a unary call's message, and a key of the method is its full name.
// The options are those of grpclimit.UnaryServerInterceptor, for all rules. The settings of a rule
// take precedence.
func (s *Set) UnaryServerInterceptor(client *rratelimiter.Client,
	opts ...grpclimit.Option) grpc.UnaryServerInterceptor {
	d := newInterceptors("UnaryServerInterceptor", s, client, opts)
	return func(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		current := d.now()
		call := grpclimit.Call{Method: info.FullMethod, Message: message}
		v := &visit{acquires: current.file.acquiresOfGRPC(ctx, current.opener, call), settle: grpclimit.Settle}
		if len(v.acquires) == 0 {
			return handler(ctx, message)
		}
		var next grpc.UnaryHandler
		decide := func(ctx context.Context, message any) (any, error) {
			at := v.next(ctx)
			return current.of(at.settings).unary(at, message, info, next)
		}
		next = func(ctx context.Context, message any) (any, error) {
			if v.admit(ctx) {
				return handler(ctx, message)
			}
			defer v.release(ctx)
			return decide(ctx, message)
		}
		return decide(ctx, message)
	}
}

// StreamServerInterceptor limits the streams of a server, each at its start. Otherwise it is like
// [Set.UnaryServerInterceptor]. With grpclimit.EachMessage, the rules that match at the start
// decide every message. If one of them denies a message, the permits that earlier rules took for it
// are released when the next message is received or the stream ends.
func (s *Set) StreamServerInterceptor(client *rratelimiter.Client,
	opts ...grpclimit.Option) grpc.StreamServerInterceptor {
	d := newInterceptors("StreamServerInterceptor", s, client, opts)
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		current := d.now()
		call := grpclimit.Call{Method: info.FullMethod}
		v := &visit{acquires: current.file.acquiresOfGRPC(ss.Context(), current.opener, call), settle: grpclimit.Settle}
		if len(v.acquires) == 0 {
			return handler(srv, ss)
		}
		var next grpc.StreamHandler
		decide := func(srv any, ss grpc.ServerStream) error {
			at := v.next(ss.Context())
			return current.of(at.settings).stream(srv, &contextStream{ss, at}, info, next)
		}
		next = func(srv any, ss grpc.ServerStream) error {
			if v.admit(ss.Context()) {
				return handler(srv, v.handlerStream(ss))
			}
			defer v.release(ss.Context())
			return decide(srv, ss)
		}
		return decide(srv, ss)
	}
}

// contextStream is a stream with another context.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *contextStream) Context() context.Context { return s.ctx }

// handlerStream returns the stream for the handler of a call that all acquires have admitted.
func (v *visit) handlerStream(ss grpc.ServerStream) grpc.ServerStream {
	if len(v.admitted) < 2 {
		return ss
	}
	s := &messageStream{ServerStream: ss, visit: v}
	for _, ctx := range v.admitted {
		s.starts = append(s.starts, visitOf(ctx))
	}
	return s
}

// messageStream is a stream whose messages several acquires may decide.
type messageStream struct {
	grpc.ServerStream
	visit  *visit
	starts []*guard.Visit[grpclimit.Outcome] // of the acquires, at the start of the stream
}

// RecvMsg receives a message. If an acquire denies it, those before it settle with a cost of 0.
func (s *messageStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	denied := false
	for i, ctx := range s.visit.admitted {
		own, outside := visitOf(ctx), visitOf(acquireOf(ctx).Context)
		if err == nil || own == outside || own == s.starts[i] {
			continue // it has taken nothing, or only for the start of the stream
		}
		denied = true
		_ = own.Settle(0) // the limiters of this package support it
	}
	s.visit.denied.Store(denied)
	return err
}

// visitOf returns the innermost visit of grpclimit around a context, nil for none.
func visitOf(ctx context.Context) *guard.Visit[grpclimit.Outcome] {
	return guard.VisitOf[grpclimit.Outcome](ctx)
}

// interceptors are the interceptors with one set of settings.
type interceptors struct {
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor
}

func newInterceptors(caller string, s *Set, client *rratelimiter.Client,
	opts []grpclimit.Option) *middlewares[interceptors] {
	return newMiddlewares(caller, s, client, func(s settings, change func(*guard.Settings)) interceptors {
		changed, _ := guard.GRPCOption(change).(grpclimit.Option)
		all := append(slices.Clip(opts), changed, grpclimit.HealthAndReflection())
		if s.costs {
			all = append(all, grpclimit.Cost(rpcCostOf))
		}
		return interceptors{grpclimit.UnaryServerInterceptor(rpcLimiterOf, all...),
			grpclimit.StreamServerInterceptor(rpcLimiterOf, all...)}
	})
}

func rpcLimiterOf(ctx context.Context, _ grpclimit.Call) (grpclimit.Limiter, error) {
	c := acquireOf(ctx)
	return c.limiter, c.err
}

func rpcCostOf(ctx context.Context, _ grpclimit.Call) int64 { return acquireOf(ctx).cost }
