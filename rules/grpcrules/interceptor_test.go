package grpcrules

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/rratelimiter/rratelimiter"
	"github.com/rratelimiter/rratelimiter/grpclimit"
	"github.com/rratelimiter/rratelimiter/internal/guard/guardtest"
	"github.com/rratelimiter/rratelimiter/rules"
	"github.com/rratelimiter/rratelimiter/rules/internal/rulestest"
)

// healthy is a server of two methods: a unary one and a stream, which answers once for each of its
// names.
type healthy struct {
	health.UnimplementedHealthServer
	matched []string
	settle  bool
}

func (h *healthy) Check(ctx context.Context, _ *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	h.matched = rules.Matched(ctx)
	if h.settle {
		return new(health.HealthCheckResponse), rules.Settle(ctx, 0)
	}
	return new(health.HealthCheckResponse), nil
}

func (h *healthy) Watch(_ *health.HealthCheckRequest, s grpc.ServerStreamingServer[health.HealthCheckResponse]) error {
	h.matched = rules.Matched(s.Context())
	return s.Send(new(health.HealthCheckResponse))
}

// rpc returns a client of a server that is limited by rules, over a socket.
func rpc(t *testing.T, client *rratelimiter.Client, h *healthy, file string) health.HealthClient {
	set, deadline := parsed(t, file), grpclimit.Deadline(time.Minute)
	server := grpc.NewServer(grpc.UnaryInterceptor(UnaryServerInterceptor(set, client, deadline)),
		grpc.StreamInterceptor(StreamServerInterceptor(set, client, deadline)))
	health.RegisterHealthServer(server, h)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return health.NewHealthClient(conn)
}

func TestServerInterceptors_Calls_MeetTheirRules(t *testing.T) {
	h := &healthy{}
	c := rpc(t, connected(t), h, `
domain: shop
rules:
  - name: check
    match: {grpc: /grpc.health.v1.Health/Check, headers: {X-Tenant: "*"}}
    key: [header:X-Tenant, ip, method]
    limits: {rate: 1/h, policy: fixed_window}
    overrides:
      - {key: [gold, 127.0.0.1, /grpc.health.v1.Health/Check], limits: {rate: 2/h, policy: fixed_window}}
      - {key: [gone, 127.0.0.1, /grpc.health.v1.Health/Check], ban: true}
  - {name: http, match: /, key: all, limits: 1/h}
  - {name: rest, match: {grpc: /grpc.health.v1.Health/*}, key: all, limits: 2/h}`)
	check := func(tenant string) codes.Code {
		ctx := t.Context()
		if tenant != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "x-tenant", tenant)
		}
		_, err := c.Check(ctx, new(health.HealthCheckRequest))
		return grpcstatus.Code(err)
	}
	for i, tt := range []struct {
		tenant string
		want   codes.Code
	}{
		{"iron", codes.OK}, {"iron", codes.ResourceExhausted}, {"gold", codes.OK}, {"gold", codes.OK},
		{"gold", codes.ResourceExhausted},
		{"gone", codes.PermissionDenied}, {"", codes.OK},
	} {
		assert.Equal(t, tt.want, check(tt.tenant), "%d %s", i, tt.tenant)
	}
	assert.Equal(t, []string{"rest"}, h.matched)
}

// If one rule denies, the others release their permits. Settle settles with all.
func TestServerInterceptors_AllRules_DecideTogether(t *testing.T) {
	h := &healthy{}
	client := connected(t)
	c := rpc(t, client, h, `
match: all
rules:
  - {name: wide, match: {grpc: /grpc.health.v1.Health/*}, key: all, limits: 3/h, wait: 1ms}
  - {name: narrow, match: {grpc: /grpc.health.v1.Health/Check}, key: all, limits: 1/h}`)
	check := func() codes.Code {
		_, err := c.Check(t.Context(), new(health.HealthCheckRequest))
		return grpcstatus.Code(err)
	}
	h.settle = true
	for range 4 {
		assert.Equal(t, codes.OK, check())
	}
	h.settle = false
	assert.Equal(t, codes.OK, check())
	assert.Equal(t, []string{"wide", "narrow"}, h.matched)
	for range 4 {
		assert.Equal(t, codes.ResourceExhausted, check())
	}
	for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		stream, err := c.Watch(t.Context(), new(health.HealthCheckRequest))
		require.NoError(t, err)
		_, err = stream.Recv()
		assert.Equal(t, want, grpcstatus.Code(err), i)
	}
}

// TestUnaryServerInterceptor_HealthAndReflection_PassUnlessNamed: a rule for all methods does not
// limit them. Some servers accept a method without its first slash.
func TestUnaryServerInterceptor_HealthAndReflection_PassUnlessNamed(t *testing.T) {
	const check, reflect, shop = "/grpc.health.v1.Health/Check",
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/shop.Orders/Create"
	const watch = "grpc.health.v1.Health/Watch"
	for fields, limited := range map[string][]string{
		"":                               {shop},
		"match: {grpc: \"*\"}, ":         {shop},
		"match: {grpc: " + check + "}, ": {check},
		"match: {grpc: /grpc.health.v1.Health/*}, ":               {check, watch},
		"match: {grpc: /grpc.reflection.v1.ServerReflection/*}, ": {reflect},
	} {
		interceptor := UnaryServerInterceptor(parsed(t, rulestest.One(fields+"ban: true")), rulestest.Offline)
		for _, method := range []string{check, watch, reflect, shop} {
			_, err := interceptor(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: method},
				func(context.Context, any) (any, error) { return nil, nil })
			assert.Equal(t, slices.Contains(limited, method), err != nil, "%s by a rule with %s", method, fields)
			if err != nil {
				assert.Equal(t, codes.PermissionDenied, grpcstatus.Code(err))
			}
		}
	}
}

// TestUnaryServerInterceptor_BinaryMetadata_IsComparedAsSent: it has no white space.
func TestUnaryServerInterceptor_BinaryMetadata_IsComparedAsSent(t *testing.T) {
	c := rpc(t, connected(t), &healthy{}, `
rules:
  - {name: four, match: {grpc: /grpc.health.v1.Health/*, headers: {Id-Bin: '    '}}, ban: true}
  - {name: ids, match: {grpc: /grpc.health.v1.Health/*}, key: header:id-bin, limits: 1/h,
     overrides: [{key: '  gone', ban: true}]}`)
	check := func(id string) codes.Code {
		_, err := c.Check(metadata.AppendToOutgoingContext(t.Context(), "id-bin", id), new(health.HealthCheckRequest))
		return grpcstatus.Code(err)
	}
	for _, id := range []string{" a", "a", "gone", "   "} {
		assert.Equal(t, codes.OK, check(id), "%q", id)
	}
	for _, banned := range []string{"  gone", "    "} {
		assert.Equal(t, codes.PermissionDenied, check(banned))
	}
}

// TestServerInterceptors_Refund_CountsOtherCalls by the status of HTTP that google.rpc.Code maps theirs to.
func TestServerInterceptors_Refund_CountsOtherCalls(t *testing.T) {
	set := parsed(t, "rules: [{name: a, match: {grpc: '*'}, key: all, limits: 2/m, refund: [200, 404]}]")
	for _, streams := range []bool{false, true} {
		client := connected(t)
		call := func(code codes.Code) codes.Code {
			if streams {
				limited := StreamServerInterceptor(set, client)
				return grpcstatus.Code(limited(nil, &stream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: "/a.B/C"},
					func(any, grpc.ServerStream) error { return grpcstatus.Error(code, "") }))
			}
			limited := UnaryServerInterceptor(set, client)
			_, err := limited(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"},
				func(context.Context, any) (any, error) { return nil, grpcstatus.Error(code, "") })
			return grpcstatus.Code(err)
		}
		for _, code := range []codes.Code{0, 0, 0, codes.NotFound, codes.NotFound, codes.Unauthenticated, codes.Code(99)} {
			assert.Equal(t, code, call(code))
		}
		assert.Equal(t, codes.ResourceExhausted, call(0))
	}
}

// TestServerInterceptors_Refund_KnowsErrorsOfContexts, which grpc-go answers with their own codes.
func TestServerInterceptors_Refund_KnowsErrorsOfContexts(t *testing.T) {
	for refund, err := range map[string]error{
		"504": fmt.Errorf("select: %w", context.DeadlineExceeded), "499": context.Canceled, "500": io.EOF,
		"404": fmt.Errorf("order: %w", grpcstatus.Error(codes.NotFound, "")),
	} {
		set := parsed(t, "rules: [{name: a, match: {grpc: '*'}, key: all, limits: 1/m, refund: "+refund+"}]")
		limited := UnaryServerInterceptor(set, connected(t))
		for range 3 {
			_, got := limited(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"},
				func(context.Context, any) (any, error) { return nil, err })
			assert.ErrorIs(t, got, err, refund)
		}
	}
}

// TestServerInterceptors_Statuses_HaveCodes: each status of a file denies a call.
func TestServerInterceptors_Statuses_HaveCodes(t *testing.T) {
	_, err := rules.Parse("f.yaml", []byte("rules: [{name: a, ban: true, status: 418}]"))
	require.Error(t, err)
	_, list, _ := strings.Cut(err.Error(), "418, want ")
	seen := make(map[codes.Code]bool)
	for status := range strings.SplitSeq(strings.ReplaceAll(list, " or ", ", "), ", ") {
		set := parsed(t, "rules: [{name: a, match: {grpc: '*'}, ban: true, status: "+status+"}]")
		code := grpcstatus.Code(servers["unary"](set, connected(t))(t.Context(), "/a.B/C"))
		assert.NotEqual(t, codes.OK, code, status)
		assert.False(t, seen[code], status)
		seen[code] = true
	}
	assert.Len(t, seen, 5)
}

// servers are both interceptors of a server, as functions that call a method.
var servers = map[string]func(*rules.Set, *rratelimiter.Client, ...grpclimit.Option) caller{
	"unary": func(set *rules.Set, client *rratelimiter.Client, opts ...grpclimit.Option) caller {
		limited := UnaryServerInterceptor(set, client, opts...)
		return func(ctx context.Context, method string) error {
			_, err := limited(ctx, nil, &grpc.UnaryServerInfo{FullMethod: method},
				func(context.Context, any) (any, error) { return nil, nil })
			return err
		}
	},
	"stream": func(set *rules.Set, client *rratelimiter.Client, opts ...grpclimit.Option) caller {
		limited := StreamServerInterceptor(set, client, opts...)
		return func(ctx context.Context, method string) error {
			return limited(nil, &stream{ctx: ctx}, &grpc.StreamServerInfo{FullMethod: method},
				func(any, grpc.ServerStream) error { return nil })
		}
	},
}

type caller = func(ctx context.Context, method string) error

type stream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *stream) Context() context.Context { return s.ctx }

func (s *stream) SetTrailer(metadata.MD) {}

// parsed returns the rules of a text.
func parsed(t testing.TB, text string) *rules.Set {
	set, err := rules.Parse("rules.yaml", []byte(text))
	require.NoError(t, err)
	return set
}

func connected(t *testing.T) *rratelimiter.Client {
	client, _ := guardtest.Connect(t)
	return client
}

func TestServerInterceptors_OddCalls_GetNoMoreThanPlainOnes(t *testing.T) {
	for name, limited := range servers {
		t.Run(name, func(t *testing.T) {
			guardtest.TestChoices(t, []string{guardtest.ByHeader, guardtest.ByBinary, guardtest.ByClient, guardtest.ByRPC},
				func(client *rratelimiter.Client, by string) func(guardtest.Choice) bool {
					call := limited(parsed(t, rulestest.Contract(by)), client)
					return func(c guardtest.Choice) bool {
						md := make(metadata.MD)
						for _, h := range c.Headers {
							md.Append(h[0], h[1])
						}
						ctx := metadata.NewIncomingContext(context.Background(), md)
						from := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.Peer))
						return call(peer.NewContext(ctx, &peer.Peer{Addr: from}), c.RPC) == nil
					}
				})
		})
	}
}
