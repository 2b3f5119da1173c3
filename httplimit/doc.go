// Package httplimit limits HTTP requests: [Middleware] those of a server, [Transport] those of a
// client. It works with every router that takes a func(http.Handler) http.Handler.
//
//	perClient := httplimit.Each(client, "web", httplimit.ByIP(), limit.FixedWindow{Permits: 100, Interval: time.Minute})
//	http.ListenAndServe(":8080", httplimit.Middleware(perClient)(mux))
//
// # Keys
//
// A chooser returns the limiter of a request: [All] one for all requests, [Each] one for each
// [Key], or any function of that shape. Forwarding headers are ignored by default: [ByIP] uses the
// peer's address, unless the peer is a trusted proxy, see [Address]. If a request has no key, that
// is an error, and never a key that clients share.
//
// # Responses
//
// A request over its limit gets 429 Too Many Requests with Retry-After and a problem document that
// names the policies that denied it. [Headers] chooses the headers with the remaining permits.
// Errors go to [Report] and [OnRedisChange], and never to clients.
//
// # Options
//
// Options are words without a prefix, such as [Deadline] and [OnFailure]. Invalid arguments of
// set-up calls panic.
//
// # Failures of Redis
//
// Each request gives Redis a [Deadline]. While Redis fails, the [limit.FailureMode] decides: [limit.Closed],
// [limit.Open], or [limit.Local], a share of the limit in this process. [OnFailure] defines when an outage
// begins and ends.
//
// # Settlement
//
// A handler gets the decision with [FromContext], and settles the final cost of the request with
// [Settle].
package httplimit
