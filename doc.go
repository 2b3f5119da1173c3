// Package rratelimiter is Redisson's RRateLimiter for Go, on rueidis. A Go program and a Java
// program that open the same limiter name on the same Redis share one limit: the same keys, the
// same bytes, the same results.
//
//	client := rratelimiter.New(redis) // on a rueidis.Client
//	limiter := client.Limiter("paid-api",
//		rratelimiter.InitialRate(rratelimiter.Rate{Permits: 100, Interval: time.Second}))
//	ok, err := limiter.TryAcquire(ctx, 1) // now or not at all
//	err = limiter.Acquire(ctx, 1)         // waits until it is free, or ctx ends
//
// Package [github.com/rratelimiter/rratelimiter/limit] has policies that need no Java, on the same [Client].
// [Compatibility] compares each call with Redisson's. [Reliability] has the promises and their exceptions.
//
// # Which call
//
// Most programs need one of two calls. A server that limits requests calls [Limiter.TryAcquire]:
// it takes the permits, or reports false at once. A program that limits its own work, such as its
// calls to a paid API, calls [Limiter.Acquire] with a context that has a deadline: it waits for
// the permits. Three calls are variants of these:
//
//   - [Limiter.TryAcquireWithin] waits, and reports false if the permits return after a timeout.
//   - [Limiter.Take] is TryAcquire that also returns the remaining permits and when to retry.
//     [Limiter.TakeWithin] is a TryAcquireWithin that does.
//   - [Limiter.TakeUpTo] takes as many permits as are free, for work in batches.
//
// [Limiter.Release] returns permits that were not used.
//
// # Model
//
// A limiter has a [Rate]: a number of permits per interval. Redis keeps every grant with its time.
// The permits of a grant return one interval later, each grant by itself: the window slides. In any
// window of one interval, at most the rate is granted.
//
// A rate is [Overall], one for all clients together, or [PerClient], one for each [Client] by its ID.
// It is in Redis. [InitialRate] sets it where there is none, [Limiter.SetRate] changes it.
//
// A limiter per user or per request needs a KeepAlive in its Rate, or Redis keeps it for ever. On a Redis
// Cluster, a name has no braces, or exactly one hash tag that is not empty.
//
// # Waiting
//
// [Limiter.Acquire], [Limiter.TryAcquireWithin] and [Limiter.TakeWithin] wait. Callers that wait for one limiter
// on one Client are served first come, first served, a large request before smaller ones behind it. Between
// processes there is no order.
//
// The other calls never wait and do not queue. They may take permits for which other callers wait,
// so a large Acquire can starve behind them.
//
// Without [WithDenialCache], a caller is never denied on stale state. If the last known state would
// deny it, the Client asks Redis, with one call for all callers that arrive together.
//
// # Errors
//
// The variables of this package, such as [ErrNotInitialized], and [*StateError] say which errors a call
// has. All other errors come from Redis or the network and are wrapped: *rueidis.RedisError is an error
// reply of the server.
//
// A script call for permits whose reply was lost is never sent again, since Redis may have executed
// it. Its permits return after the interval.
//
// [Compatibility]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/compatibility.md
// [Reliability]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/reliability.md
package rratelimiter
