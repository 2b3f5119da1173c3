// Package otellimit reports limiters to OpenTelemetry: requests and their results, durations and
// waits, calls to Redis, and the fallback of middleware while Redis fails.
//
//	telemetry, err := otellimit.New()
//	client := rratelimiter.New(redis, rratelimiter.WithObserver(telemetry.Observer()))
//
// Options begin with With, as those of a rratelimiter.Client.
//
// # Instruments
//
//	rratelimiter.requests               counter    {request}  requests for permits
//	rratelimiter.permits                counter    {permit}   granted permits
//	rratelimiter.request.duration       histogram  s          the whole request, waits included
//	rratelimiter.request.time_in_queue  histogram  s          the wait for permits, of requests that waited
//	rratelimiter.queued_requests        up-down    {request}  requests queued now
//	rratelimiter.denial_cache.hits      counter    {request}  requests denied from memory
//	rratelimiter.redis.calls            counter    {call}     calls to Redis for permits
//	rratelimiter.redis.call.requests    histogram  {request}  requests per call
//	rratelimiter.redis.call.duration    histogram  s          duration of a call
//	rratelimiter.held_places            up-down    {place}    places of calls in flight held now
//	rratelimiter.expired_places         counter    {place}    places that ended by their lease and not by a return
//	rratelimiter.middleware.requests    counter    {request}  requests of a [Middleware], by result
//	rratelimiter.fallback.active        up-down    {limiter}  middleware that decides without Redis now
//	rratelimiter.rules.reloads          counter    {reload}   reloads of rules files
//
// queued_requests counts every call of Acquire, TryAcquireWithin and TakeWithin that is not answered
// from memory, until it returns.
// held_places and expired_places are those of a limit.InFlight, see rratelimiter.PlacesInfo. One Client counts each
// expired place, whichever held it.
// time_in_queue does not record requests that the first reply of Redis decides.
//
// # Attributes
//
// All instruments but the last five have rratelimiter.policy: "redisson" for the limiters of package
// rratelimiter, or the policies, such as "token_bucket" or "calendar+sliding_window".
// rratelimiter.limiter is the name of a limiter that [WithLimiterNames] lists, in middleware.requests and those of places too.
// rratelimiter.middleware is the name of a Middleware. rratelimiter.node is the address of a node of
// Redis, in fallback.active during its outage. rratelimiter.source is "share" for a decision by a local
// share, in middleware.requests.
//
// rratelimiter.result is one of:
//
//	acquired       granted
//	rejected       denied, at once or at the end of a wait
//	canceled       the caller's context ended, or its deadline was unreachable
//	charged        taken afterwards, by Charge of package limit
//	failed         no decision: Redis failed, or the request cannot be granted
//	shadowed       of a Middleware: passed, but would have been rejected or invalid without shadow mode
//	failed_open    of a Middleware: no decision, passed
//	failed_closed  of a Middleware: no decision, did not pass
//	invalid        of a Middleware: lacked its key or cost, did not pass
//	succeeded      of a reload; failed otherwise
//
// error.type is the kind of an error:
//
//	canceled, deadline_exceeded
//	not_initialized
//	invalid_request  lacks its key or cost, asks for more than the rate, or has another invalid argument
//	state            the content of a key in Redis is invalid
//	redis            Redis returned another error
//	connection
//	redis_down       decided without a call, in an outage
//	_OTHER
//
// Error texts, names and addresses of clients are not reported.
//
// # Spans
//
// Each call that waited for permits, see [WithSpansAfter], has a span rratelimiter.wait below the
// caller's span. It is created at the end of the call and has the attributes of the request and
// rratelimiter.permits.
//
// # Costs
//
// A decision takes two to four measurements and does not allocate; the [documentation] has figures.
// Without a MeterProvider they cost next to nothing.
//
// [documentation]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/production.md#observability
package otellimit
