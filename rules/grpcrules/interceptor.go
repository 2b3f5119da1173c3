package grpcrules

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/httplimit"
	"github.com/rratelimiter/rratelimiter/internal/guard"
	"github.com/rratelimiter/rratelimiter/rules"
	"github.com/rratelimiter/rratelimiter/rules/internal/ruleset"
)

// UnaryServerInterceptor limits the unary calls to a server by the rules whose match has grpc, and
// by those without a match. It decides like [rules.Set.Middleware]. Headers of rules are metadata.
// The content_length is the size of a unary call's message, and a key of the method is its full name.
// The options are those of grpclimit.UnaryServerInterceptor, for all rules. The settings of the
// file take precedence. It panics if the set or the client is nil.
func UnaryServerInterceptor(set *rules.Set, client *rratelimiter.Client,
	opts ...grpclimit.Option) grpc.UnaryServerInterceptor {
	m := newInterceptors("grpcrules: UnaryServerInterceptor", set, client, opts)
	return func(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		current := m.Now()
		call := grpclimit.Call{Method: info.FullMethod, Message: message}
		v := current.Visit(requestOf(ctx, call, current.File().Address()), grpclimit.Settle)
		if v == nil {
			return handler(ctx, message)
		}
		var next grpc.UnaryHandler
		decide := func(ctx context.Context, message any) (any, error) {
			ctx, i := current.Next(ctx, v)
			return i.unary(ctx, message, info, next)
		}
		next = func(ctx context.Context, message any) (any, error) {
			if v.Admit(ctx) {
				return handler(ctx, message)
			}
			defer v.Release(ctx)
			return decide(ctx, message)
		}
		return decide(ctx, message)
	}
}

// StreamServerInterceptor limits the streams of a server, each at its start. Otherwise it is like
// [UnaryServerInterceptor].
func StreamServerInterceptor(set *rules.Set, client *rratelimiter.Client,
	opts ...grpclimit.Option) grpc.StreamServerInterceptor {
	m := newInterceptors("grpcrules: StreamServerInterceptor", set, client, opts)
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		current := m.Now()
		call := grpclimit.Call{Method: info.FullMethod}
		v := current.Visit(requestOf(ss.Context(), call, current.File().Address()), grpclimit.Settle)
		if v == nil {
			return handler(srv, ss)
		}
		var next grpc.StreamHandler
		decide := func(srv any, ss grpc.ServerStream) error {
			ctx, i := current.Next(ss.Context(), v)
			return i.stream(srv, &contextStream{ss, ctx}, info, next)
		}
		next = func(srv any, ss grpc.ServerStream) error {
			if v.Admit(ss.Context()) {
				return handler(srv, ss)
			}
			defer v.Release(ss.Context())
			return decide(srv, ss)
		}
		return decide(srv, ss)
	}
}

type contextStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *contextStream) Context() context.Context { return s.ctx }

// fileOption is an option with the settings of a file.
type fileOption struct {
	grpclimit.Option
	guard.Change
}

// interceptors are the interceptors with one set of settings.
type interceptors struct {
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor
}

func newInterceptors(caller string, set *rules.Set, client *rratelimiter.Client,
	opts []grpclimit.Option) *ruleset.Middlewares[interceptors] {
	if set == nil {
		panic(caller + ": the set is nil")
	}
	open := func(change func(*guard.Settings), costs bool, _ httplimit.Option) interceptors {
		all := append(slices.Clip(opts), fileOption{Change: func(to *guard.Settings) {
			to.LimitsHealth = true // a rule may name them
			change(to)
		}})
		if costs {
			all = append(all, grpclimit.Cost(costOf))
		}
		return interceptors{grpclimit.UnaryServerInterceptor(limiterOf, all...),
			grpclimit.StreamServerInterceptor(limiterOf, all...)}
	}
	return ruleset.NewMiddlewares(caller, (*ruleset.Set)(set), client, open)
}

func limiterOf(ctx context.Context, _ grpclimit.Call) (grpclimit.Limiter, error) {
	return ruleset.LimiterOf(ctx)
}

func costOf(ctx context.Context, _ grpclimit.Call) int64 { return ruleset.CostOf(ctx) }

func requestOf(ctx context.Context, call grpclimit.Call, from httplimit.Address) *ruleset.Request {
	address := grpclimit.Address(from)
	if !strings.HasPrefix(call.Method, "/") { // some servers accept such a method
		call.Method = "/" + call.Method
	}
	r := &ruleset.Request{
		Method: call.Method, Length: -1,
		Headers:   sync.OnceValue(func() http.Header { return headersOf(ctx) }),
		Client:    sync.OnceValues(func() (netip.Addr, error) { return address.Client(ctx) }), // many rules may need it
		ClientKey: sync.OnceValues(func() (string, error) { return address.Key(ctx, call) }),
	}
	if message, ok := call.Message.(proto.Message); ok {
		r.Length = int64(proto.Size(message))
	}
	return r
}

func headersOf(ctx context.Context) http.Header {
	headers := make(http.Header)
	md, _ := metadata.FromIncomingContext(ctx) // without metadata there are no headers
	for name, values := range md {
		name = http.CanonicalHeaderKey(name)
		headers[name] = append(headers[name], values...)
	}
	return headers
}
