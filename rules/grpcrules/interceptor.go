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
	open := func(all []grpclimit.Option) ruleset.Middleware[*unaryCall] {
		limited := grpclimit.UnaryServerInterceptor(limiterOf, all...)
		return func(ctx context.Context, c *unaryCall, next ruleset.Handler[*unaryCall]) (err error) {
			c.reply, err = limited(ctx, c.message, c.UnaryServerInfo, func(ctx context.Context, _ any) (any, error) {
				err := next(ctx, c)
				return c.reply, err
			})
			return err
		}
	}
	m := newMiddlewares("grpcrules: UnaryServerInterceptor", set, client, opts, open)
	return func(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		current, c := m.Now(), &unaryCall{info, message, nil}
		read := requestOf(ctx, grpclimit.Call{Method: info.FullMethod, Message: message}, current.File.Address())
		err := current.Serve(ctx, read, c, func(ctx context.Context, _ *unaryCall) (err error) {
			c.reply, err = handler(ctx, message)
			return err
		})
		return c.reply, err
	}
}

// unaryCall is a unary call.
type unaryCall struct {
	*grpc.UnaryServerInfo
	message, reply any
}

// StreamServerInterceptor limits the streams of a server, each at its start. Otherwise it is like
// [UnaryServerInterceptor].
func StreamServerInterceptor(set *rules.Set, client *rratelimiter.Client,
	opts ...grpclimit.Option) grpc.StreamServerInterceptor {
	open := func(all []grpclimit.Option) ruleset.Middleware[streamCall] {
		limited := grpclimit.StreamServerInterceptor(limiterOf, all...)
		return func(ctx context.Context, c streamCall, next ruleset.Handler[streamCall]) error {
			admitted := func(_ any, ss grpc.ServerStream) error { return next(ss.Context(), streamCall{c.StreamServerInfo, ss}) }
			return limited(nil, &contextStream{c.ServerStream, ctx}, c.StreamServerInfo, admitted)
		}
	}
	m := newMiddlewares("grpcrules: StreamServerInterceptor", set, client, opts, open)
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		current, ctx := m.Now(), ss.Context()
		read := requestOf(ctx, grpclimit.Call{Method: info.FullMethod}, current.File.Address())
		return current.Serve(ctx, read, streamCall{info, ss}, func(_ context.Context, c streamCall) error {
			return handler(srv, c.ServerStream)
		})
	}
}

// streamCall is a stream.
type streamCall struct {
	*grpc.StreamServerInfo
	grpc.ServerStream
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

func newMiddlewares[R any](caller string, set *rules.Set, client *rratelimiter.Client, opts []grpclimit.Option,
	open func([]grpclimit.Option) ruleset.Middleware[R]) *ruleset.Middlewares[R] {
	if set == nil {
		panic(caller + ": the set is nil")
	}
	withSettings := func(change func(*guard.Settings), costs bool, _ httplimit.Option) ruleset.Middleware[R] {
		all := append(slices.Clip(opts), fileOption{Change: func(to *guard.Settings) {
			to.LimitsHealth = true // a rule may name them
			change(to)
		}})
		if costs {
			all = append(all, grpclimit.Cost(costOf))
		}
		return open(all)
	}
	return ruleset.NewMiddlewares(caller, (*ruleset.Set)(set), client, grpclimit.Settle, withSettings)
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
