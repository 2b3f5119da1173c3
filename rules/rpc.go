package rules

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/internal/target"
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
		c := &rpcVisit{steps: d.now().rpcSteps(d.opener, ctx, grpclimit.Call{Method: info.FullMethod, Message: message})}
		if len(c.steps) == 0 {
			return handler(ctx, message)
		}
		var next grpc.UnaryHandler
		decide := func(ctx context.Context, message any) (any, error) {
			at := c.next(ctx)
			return d.of(at.step.settings).unary(at, message, info, next)
		}
		next = func(ctx context.Context, message any) (any, error) {
			if c.passes(ctx) {
				return handler(ctx, message)
			}
			defer c.release(ctx)
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
		c := &rpcVisit{steps: d.now().rpcSteps(d.opener, ss.Context(), grpclimit.Call{Method: info.FullMethod})}
		if len(c.steps) == 0 {
			return handler(srv, ss)
		}
		var next grpc.StreamHandler
		decide := func(srv any, ss grpc.ServerStream) error {
			at := c.next(ss.Context())
			return d.of(at.step.settings).stream(srv, &visited{ss, at}, info, next)
		}
		next = func(srv any, ss grpc.ServerStream) error {
			if c.passes(ss.Context()) {
				return handler(srv, c.received(ss))
			}
			defer c.release(ss.Context())
			return decide(srv, ss)
		}
		return decide(srv, ss)
	}
}

// visited is a stream with a visit as its context.
type visited struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *visited) Context() context.Context { return s.ctx }

// received returns the stream for the handler of a call that all steps have admitted.
func (c *rpcVisit) received(ss grpc.ServerStream) grpc.ServerStream {
	if len(c.passed) < 2 {
		return ss
	}
	s := &receiving{ServerStream: ss, visit: c}
	for _, ctx := range c.passed {
		s.starts = append(s.starts, visitOf(ctx))
	}
	return s
}

// receiving is a stream whose messages several steps may decide.
type receiving struct {
	grpc.ServerStream
	visit  *rpcVisit
	starts []*guard.Visit[grpclimit.Outcome] // of the steps, at the start of the stream
}

// RecvMsg receives a message. If a step denies it, the steps before it settle with a cost of 0.
func (s *receiving) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	denied := false
	for i, ctx := range s.visit.passed {
		own, outside := visitOf(ctx), visitOf(rpcStepOf(ctx).Context)
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

func newInterceptors(name string, s *Set, client *rratelimiter.Client, opts []grpclimit.Option) *guards[interceptors] {
	if client == nil {
		panic("rules: " + name + ": the client is nil")
	}
	d := &guards[interceptors]{set: s, opener: newOpener(client, protocolGRPC)}
	d.open = func(s settings) interceptors {
		shared, _ := guard.ShareGRPC(d.sharing(s)).(grpclimit.Option)
		all := slices.Concat(opts, s.rpcOptions(), []grpclimit.Option{shared, grpclimit.HealthAndReflection()})
		return interceptors{grpclimit.UnaryServerInterceptor(rpcLimiterOf, all...),
			grpclimit.StreamServerInterceptor(rpcLimiterOf, all...)}
	}
	return d
}

// rpcOptions returns the settings as options of grpclimit.
func (s settings) rpcOptions() []grpclimit.Option {
	var opts []grpclimit.Option
	if s.modeGiven {
		opts = append(opts, grpclimit.OnFailure(grpclimit.FailureMode(s.onFailure)))
	}
	if s.deadline > 0 {
		opts = append(opts, grpclimit.Deadline(s.deadline))
	}
	if s.wait > 0 {
		opts = append(opts, grpclimit.Wait(s.wait))
	}
	if s.maxWaiting > 0 {
		opts = append(opts, grpclimit.MaxWaiting(s.maxWaiting))
	}
	if s.shadow {
		opts = append(opts, grpclimit.Shadow())
	}
	if s.invalidFails {
		opts = append(opts, grpclimit.InvalidAsFailure())
	}
	if s.costs {
		opts = append(opts,
			grpclimit.Cost(func(ctx context.Context, _ grpclimit.Call) int64 { return rpcStepOf(ctx).step.cost }))
	}
	return opts
}

// rpcVisit is a call that passes through its steps.
type rpcVisit struct {
	steps  []step
	passed []context.Context
	served bool
	denied atomic.Bool // a step denied the last message received, after others had admitted it
}

// rpcStep is the context in which a step decides.
type rpcStep struct {
	context.Context
	visit *rpcVisit
	step  *step
}

func (s *rpcStep) Value(key any) any {
	if key == (rpcStepKey{}) {
		return s
	}
	return s.Context.Value(key)
}

type rpcStepKey struct{}

// rpcStepOf returns the innermost step of a context, nil for none.
func rpcStepOf(ctx context.Context) *rpcStep {
	s, _ := ctx.Value(rpcStepKey{}).(*rpcStep)
	return s
}

// next returns the context of the next step.
func (c *rpcVisit) next(ctx context.Context) *rpcStep {
	return &rpcStep{ctx, c, &c.steps[len(c.passed)]}
}

// passes moves on to the next step. It reports whether all steps have admitted the call.
func (c *rpcVisit) passes(ctx context.Context) bool {
	c.passed = append(c.passed, ctx)
	c.served = len(c.passed) == len(c.steps)
	return c.served
}

// release releases the permits of a step if a later one has denied the call.
func (c *rpcVisit) release(ctx context.Context) {
	if !c.served {
		_ = grpclimit.Settle(ctx, 0) // the limiters of this package support it
	}
}

func rpcLimiterOf(ctx context.Context, _ grpclimit.Call) (grpclimit.Limiter, error) {
	s := rpcStepOf(ctx).step
	return s.limiter, s.err
}

// rpcSteps returns the steps that decide a call.
func (s *snapshot) rpcSteps(o *opener, ctx context.Context, call grpclimit.Call) []step {
	address := grpclimit.Address{Trusted: s.address.Trusted, Header: s.address.Header, IPv6Bits: s.address.IPv6Bits}
	if !strings.HasPrefix(call.Method, "/") { // some servers accept such a method
		call.Method = "/" + call.Method
	}
	return s.stepsOf(o, &s.grpc, &grpcRequest{ctx: ctx, call: call, address: address}, target.Path{Text: call.Method})
}

// grpcRequest is a call of gRPC.
type grpcRequest struct {
	ctx     context.Context
	call    grpclimit.Call
	address grpclimit.Address
	from    cachedAddress
	headers http.Header // the metadata, made on first use
	last    lastHeader
}

func (a *grpcRequest) method() string { return a.call.Method }

func (a *grpcRequest) methodKey() string { return a.call.Method }

func (a *grpcRequest) host() string {
	if values := metadata.ValueFromIncomingContext(a.ctx, ":authority"); len(values) > 0 {
		return target.Host(values[0])
	}
	return ""
}

func (a *grpcRequest) values(header string) []string {
	if a.headers == nil {
		a.headers = make(http.Header)
		md, _ := metadata.FromIncomingContext(a.ctx) // without metadata there are no headers
		for name, values := range md {
			name = http.CanonicalHeaderKey(name)
			a.headers[name] = append(a.headers[name], values...)
		}
	}
	return a.last.of(a.headers, header)
}

func (a *grpcRequest) client() (netip.Addr, error) {
	if !a.from.known {
		a.from.set(a.address.Client(a.ctx))
	}
	return a.from.addr, a.from.err
}

func (a *grpcRequest) clientKey() (string, error) { return a.address.Key(a.ctx, a.call) }

// length returns the size of a unary call's message.
func (a *grpcRequest) length() int64 {
	if m, ok := a.call.Message.(proto.Message); ok {
		return int64(proto.Size(m))
	}
	return -1
}
