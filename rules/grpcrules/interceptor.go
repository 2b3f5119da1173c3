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
	"github.com/rratelimiter/rratelimiter/internal/guard/gate"
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
	return grpclimit.UnaryServerInterceptor(unused, byFile("UnaryServerInterceptor", set, client, opts)...)
}

// StreamServerInterceptor limits the streams of a server, each at its start. Otherwise it is like
// [UnaryServerInterceptor].
func StreamServerInterceptor(set *rules.Set, client *rratelimiter.Client,
	opts ...grpclimit.Option) grpc.StreamServerInterceptor {
	return grpclimit.StreamServerInterceptor(unused, byFile("StreamServerInterceptor", set, client, opts)...)
}

// unused is the chooser of an interceptor whose file chooses.
func unused(context.Context, grpclimit.Call) (grpclimit.Limiter, error) { return nil, nil }

// fileOption is an option with the settings of a file.
type fileOption struct {
	grpclimit.Option
	gate.Change[call]
}

// call is a call as the interceptors of grpclimit have it.
type call = gate.Call[grpclimit.Call]

// byFile returns the options of an interceptor that decides by a file.
func byFile(interceptor string, set *rules.Set, client *rratelimiter.Client,
	opts []grpclimit.Option) []grpclimit.Option {
	caller := "grpcrules: " + interceptor
	if set == nil {
		panic(caller + ": the set is nil")
	}
	decides := ruleset.ByFile(caller, (*ruleset.Set)(set), client, requestOf)
	return append(slices.Clip(opts), fileOption{Change: func(to *gate.Options[call]) {
		to.LimitsHealth = true // a rule may name them
		decides(to)
	}})
}

// requestOf returns a call as rules read it.
func requestOf(file *ruleset.File, c call) *ruleset.Request {
	address, method := grpclimit.Address(file.Address), c.Call.Method
	if !strings.HasPrefix(method, "/") { // some servers accept such a method
		method = "/" + method
	}
	r := &ruleset.Request{
		Method: method, Length: -1,
		Headers: sync.OnceValue(func() http.Header { return headersOf(c.In) }),
		Client:  sync.OnceValues(func() (netip.Addr, error) { return address.Client(c.In) }), // many rules may need it
		Address: file.Address,
	}
	if message, ok := c.Call.Message.(proto.Message); ok {
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
