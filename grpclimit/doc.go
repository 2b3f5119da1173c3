// Package grpclimit limits the calls of grpc-go by the limiters of this module: [UnaryServerInterceptor] and [StreamServerInterceptor]
// those that a server gets, [UnaryClientInterceptor] and [StreamClientInterceptor] those that a client makes. It is to gRPC what
// package httplimit is to net/http, and has the same words for the same things.
//
//	perClient := grpclimit.Each(client, "api", grpclimit.ByIP(), limit.FixedWindow{Permits: 100, Interval: time.Minute})
//	grpc.NewServer(grpc.UnaryInterceptor(grpclimit.UnaryServerInterceptor(perClient)),
//		grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(perClient)))
//
// # Who asks
//
// A chooser gives the limiter of a [Call]: [All] one for all, [Each] one for each [Key], or any func of that shape. No metadata
// is believed by default: [ByIP] is the peer's address, unless the peer is a proxy that was said to be trusted, see [Address].
// Where it cannot be told who asks, that is an error and never a key that many share.
//
// # What clients see
//
// A call over its limit gets ResourceExhausted, with details of google.rpc: a RetryInfo, where a later try helps, and a QuotaFailure
// that names each policy that refused and its permits. A Closed one gets Unavailable, with a RetryInfo of a second. The
// trailer grpc-retry-pushback-ms tells the same to retry policies of clients, so that they try again at the right moment; or
// not at all where no try helps, where one helps in more than a minute only, or where it would send messages of a stream again
// that have passed. Clients heed it unless something outside has sent headers before. What failed, and why, is told to [Report]
// and [OnStoreChange], and never to clients; nor are addresses, keys and names of limiters, unless [Subject] says so.
//
// # Streams
//
// A stream is limited at its start, or by its messages: see [EachMessage].
//
// # When Redis fails
//
// Redis has a [Deadline] for each call. What becomes of calls when it fails is the [FailureMode]: [Closed], [Open], or a share of
// the limit that this process grants by itself ([Local]). [OnFailure] says how an outage is noticed, and its end.
//
// # Afterwards
//
// A handler finds what was decided with [FromContext], and can say what the call has cost in the end with [Settle].
package grpclimit
