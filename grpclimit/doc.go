// Package grpclimit limits the calls of grpc-go: [UnaryServerInterceptor] and
// [StreamServerInterceptor] those of a server, [UnaryClientInterceptor] and
// [StreamClientInterceptor] those of a client. Its names are those of package httplimit.
//
//	perClient := grpclimit.Each(client, "api", grpclimit.ByIP(), limit.FixedWindow{Permits: 100, Interval: time.Minute})
//	grpc.NewServer(grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(perClient)),
//		grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(perClient)))
//
// Keys, options, failures of Redis and settlement are those of package httplimit. Metadata is ignored
// by default: [ByIP] uses the peer's address, unless the peer is a trusted proxy, see [Address].
//
// # Statuses
//
// A call over its limit gets ResourceExhausted, with details of google.rpc: a RetryInfo if a retry
// helps, and a QuotaFailure that names each policy that denied it. A Closed call gets Unavailable,
// with a RetryInfo of a second.
//
// The trailer grpc-retry-pushback-ms gives the same time to retry policies of clients. It stops
// their retries if none helps, or if one helps only after more than a minute. Clients ignore it if
// an outer interceptor has sent headers.
//
// Errors go to [Report] and [OnRedisChange], and never to clients. Addresses, keys and names of
// limiters do not either.
//
// # Streams
//
// A stream is limited at its start. A handler limits its messages by a limiter of its own, as
// [github.com/rratelimiter/rratelimiter/limit.Keyed]; docs/grpc.md has the lines.
package grpclimit
