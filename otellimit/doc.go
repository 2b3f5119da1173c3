// Package otellimit tells OpenTelemetry what limiters do: how many requests there are and what becomes of them, how long they take and
// wait, what goes to Redis, and what a program's doors do while it fails.
//
//	telemetry, err := otellimit.New()
//	client := rratelimiter.New(redis, rratelimiter.WithObserver(telemetry.Observer()))
//
// # Instruments
//
//	rratelimiter.requests               counter    {request}  requests for permits
//	rratelimiter.permits                counter    {permit}   permits that were granted
//	rratelimiter.request.duration       histogram  s          the whole call, waits included
//	rratelimiter.request.time_in_queue  histogram  s          the wait for permits, of requests that had to
//	rratelimiter.queued_requests        up-down    {request}  requests that stand in line now
//	rratelimiter.denial_cache.hits      counter    {request}  requests that were denied from memory
//	rratelimiter.redis.calls            counter    {call}     calls to Redis that ask for permits
//	rratelimiter.redis.call.requests    histogram  {request}  requests that such a call carried
//	rratelimiter.redis.call.duration    histogram  s          until it was answered
//	rratelimiter.door.requests          counter    {request}  what became of requests at a [Door]
//	rratelimiter.fallback.active        up-down    {limiter}  doors that do without Redis now
//	rratelimiter.rules.reloads          counter    {reload}   files of rules that were read
//
// Whoever calls Acquire or TryAcquireWithin of most limiters stands in line, if for no longer than Redis takes to answer. One whom the
// first answer serves, or refuses, is in queued_requests until then, and not in time_in_queue.
//
// # Attributes
//
// All but the last three have rratelimiter.policy, "token_bucket" or "calendar+sliding_window" for instance, and "redisson" for the
// limiters of package rratelimiter; rratelimiter.limiter is added where [WithLimiterNames] says so, in door.requests too. What a door
// does has rratelimiter.door, its name.
//
// rratelimiter.result is one of:
//
//	acquired       it has its permits
//	rejected       they were not to be had, or not in time
//	canceled       the caller's context ended first, or would have
//	charged        taken afterwards, by Charge of package limit
//	failed         nobody decided: Redis failed, or the request is one that cannot be granted
//	shadowed       at a door: it passed, and would have been rejected but for the shadow mode
//	failed_open    at a door: nobody decided, and it passed
//	failed_closed  at a door: nobody decided, and it did not pass
//	succeeded      of a reload; failed otherwise
//
// Where there is an error, error.type is what kind it is of: canceled, deadline_exceeded, not_initialized, permits_exceed_rate,
// invalid_argument, invalid_request (it lacks what its limit needs), state (Redis holds what is no limiter's), redis (it returned
// another error), connection, or _OTHER. The texts of errors, names and addresses are not reported. Policies, doors and names beyond
// the first 1,000 are counted as _OTHER.
//
// # Spans
//
// Each call that waited for permits for some time, see [WithSpansAfter], is a span, rratelimiter.wait, below the caller's own: made when
// it is over, with the attributes of the request and rratelimiter.permits. Calls that never wait have none.
//
// # Costs
//
// A request that is decided costs two or three measurements, and no memory of this package; docs/observability.md has figures. With
// no MeterProvider set they are next to nothing.
package otellimit
