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

// UnaryServerInterceptor limits the unary calls to a server by the rules that match grpc, or whatever comes, as [Set.Middleware] does
// requests of HTTP. Headers of rules are metadata, content_length the size of a unary call's message, and a key of the
// method is its full name. The options are those of grpclimit.UnaryServerInterceptor, for all rules; what a rule says itself
// goes before them.
func (s *Set) UnaryServerInterceptor(client *rratelimiter.Client, opts ...grpclimit.Option) grpc.UnaryServerInterceptor {
	d := newRPCDoors("UnaryServerInterceptor", s, client, opts)
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
			defer c.giveBack(ctx)
			return decide(ctx, message)
		}
		return decide(ctx, message)
	}
}

// StreamServerInterceptor limits the streams of a server, each at its start. All else is as with [Set.UnaryServerInterceptor]. With
// grpclimit.EachMessage every message is decided, by the rules that were found at the start. If one of them denies it, what the
// rules before it took for that message is returned when the next message is received, or the stream ends.
func (s *Set) StreamServerInterceptor(client *rratelimiter.Client, opts ...grpclimit.Option) grpc.StreamServerInterceptor {
	d := newRPCDoors("StreamServerInterceptor", s, client, opts)
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
			defer c.giveBack(ss.Context())
			return decide(srv, ss)
		}
		return decide(srv, ss)
	}
}

// visited is a stream whose context is a visit.
type visited struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *visited) Context() context.Context { return s.ctx }

// received returns the stream for the handler of a call that has passed all steps.
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

// receiving is a stream whose messages several steps may decide, one after another.
type receiving struct {
	grpc.ServerStream
	visit  *rpcVisit
	starts []*guard.Visit[grpclimit.Outcome] // of the steps, from before the first message
}

// RecvMsg receives a message. If a step denies it, the steps before it settle with a cost of 0.
func (s *receiving) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	denied := false
	for i, ctx := range s.visit.passed {
		own, outside := visitOf(ctx), visitOf(rpcStepOf(ctx).Context)
		if err == nil || own == outside || own == s.starts[i] {
			continue // it took nothing, or for the start of the stream
		}
		denied = true
		_ = own.Settle(0) // the limiters of this package can
	}
	s.visit.denied.Store(denied)
	return err
}

// visitOf returns the innermost visit of grpclimit around a context, nil for none.
func visitOf(ctx context.Context) *guard.Visit[grpclimit.Outcome] {
	return guard.VisitOf[grpclimit.Outcome](ctx)
}

// interceptors are the doors of gRPC.
type interceptors struct {
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor
}

func newRPCDoors(name string, s *Set, client *rratelimiter.Client, opts []grpclimit.Option) *doors[interceptors] {
	if client == nil {
		panic("rules: " + name + ": there is no client")
	}
	d := &doors[interceptors]{set: s, opener: newOpener(client, grpcDoor)}
	d.open = func(s settings) interceptors {
		shared, _ := guard.ShareGRPC(d.sharing(s)).(grpclimit.Option)
		all := slices.Concat(opts, s.rpcOptions(), []grpclimit.Option{shared, grpclimit.HealthAndReflection()})
		return interceptors{grpclimit.UnaryServerInterceptor(rpcLimiterOf, all...), grpclimit.StreamServerInterceptor(rpcLimiterOf, all...)}
	}
	return d
}

// rpcOptions is the settings for grpclimit.
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
		opts = append(opts, grpclimit.Cost(func(ctx context.Context, _ grpclimit.Call) int64 { return rpcStepOf(ctx).step.cost }))
	}
	return opts
}

// rpcVisit is a call on its way through the steps that decide it.
type rpcVisit struct {
	steps  []step
	passed []context.Context
	served bool
	denied atomic.Bool // the message received last, after some steps had let it pass
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

// rpcStepOf is the innermost step around a context, nil for none.
func rpcStepOf(ctx context.Context) *rpcStep {
	s, _ := ctx.Value(rpcStepKey{}).(*rpcStep)
	return s
}

// next is the context of the step that decides next.
func (c *rpcVisit) next(ctx context.Context) *rpcStep {
	return &rpcStep{ctx, c, &c.steps[len(c.passed)]}
}

// passes moves on to the next step, and reports whether there is none.
func (c *rpcVisit) passes(ctx context.Context) bool {
	c.passed = append(c.passed, ctx)
	c.served = len(c.passed) == len(c.steps)
	return c.served
}

// giveBack gives back what a step took, where a later one has not let the call pass.
func (c *rpcVisit) giveBack(ctx context.Context) {
	if !c.served {
		_ = grpclimit.Settle(ctx, 0) // the limiters of this package can
	}
}

func rpcLimiterOf(ctx context.Context, _ grpclimit.Call) (grpclimit.Limiter, error) {
	s := rpcStepOf(ctx).step
	return s.limiter, s.err
}

// rpcSteps is what decides a call.
func (s *snapshot) rpcSteps(o *opener, ctx context.Context, call grpclimit.Call) []step {
	address := grpclimit.Address{Trusted: s.address.Trusted, Header: s.address.Header, IPv6Bits: s.address.IPv6Bits}
	if !strings.HasPrefix(call.Method, "/") { // which some servers accept
		call.Method = "/" + call.Method
	}
	return s.stepsOf(o, &s.grpc, &overGRPC{ctx: ctx, call: call, address: address}, target.Path{Text: call.Method})
}

// overGRPC is a call of gRPC.
type overGRPC struct {
	ctx     context.Context
	call    grpclimit.Call
	address grpclimit.Address
	from    remembered
	headers http.Header // the metadata, made when a rule needs it
	last    lastHeader
}

func (a *overGRPC) method() string { return a.call.Method }

func (a *overGRPC) methodKey() string { return a.call.Method }

func (a *overGRPC) host() string {
	if values := metadata.ValueFromIncomingContext(a.ctx, ":authority"); len(values) > 0 {
		return target.Host(values[0])
	}
	return ""
}

func (a *overGRPC) values(header string) []string {
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

func (a *overGRPC) client() (netip.Addr, error) {
	if !a.from.known {
		a.from.set(a.address.Client(a.ctx))
	}
	return a.from.addr, a.from.err
}

func (a *overGRPC) clientKey() (string, error) { return a.address.Key(a.ctx, a.call) }

// length is the size of a unary call's message.
func (a *overGRPC) length() int64 {
	if m, ok := a.call.Message.(proto.Message); ok {
		return int64(proto.Size(m))
	}
	return -1
}
