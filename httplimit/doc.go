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
// A handler gets the decision with [FromContext], and settles the final cost of the request with
// [Settle].
//
// # Failures of Redis
//
// Each request gives Redis a [Deadline]. [OnFailure] sets what decides while Redis fails, and defines when an
// outage begins and ends. Invalid arguments of set-up calls panic.
package httplimit
