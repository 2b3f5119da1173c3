// Package httplimit limits HTTP requests by the limiters of this module: [Middleware] those that a server gets, [Transport] those
// that a client sends. It works with whatever takes a func(http.Handler) http.Handler.
//
//	perClient := httplimit.Each(client, "web", httplimit.ByIP(), limit.FixedWindow{Permits: 100, Interval: time.Minute})
//	http.ListenAndServe(":8080", httplimit.Middleware(perClient)(mux))
//
// # Who asks
//
// A chooser gives the limiter of a request: [All] one for all, [Each] one for each [Key], or any func of that shape. No header
// is believed by default: [ByIP] is the peer's address, unless the peer is a proxy that was said to be trusted, see [Address].
// Where it cannot be told who asks, that is an error and never a key that many share.
//
// # What clients see
//
// A request over its limit gets 429 Too Many Requests with a Retry-After and a problem document that names the policies that refused.
// [Headers] chooses in which headers clients are told what is left. What failed, and why, is told to [Report] and
// [OnStoreChange], and never to clients.
//
// # When Redis fails
//
// Redis has a [Deadline] for each request. What becomes of requests when it fails is the [FailureMode]: [Closed], [Open], or a share of
// the limit that this process grants by itself ([Local]). [OnFailure] says how an outage is noticed, and its end.
//
// # Afterwards
//
// A handler finds what was decided with [FromContext], and can say what the request has cost in the end with [Settle].
package httplimit
