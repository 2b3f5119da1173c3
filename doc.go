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
// window of one interval, at most the rate is granted. [Reliability] lists the exceptions: state that
// Java left inconsistent, clocks that differ, and a loss of data.
//
// A grant is dated by the clock of the calling host, as Redisson does. [WithServerTime] dates grants
// by the server's clock.
//
// The rate is set in Java, by hand (rrl set), or in Go. With [InitialRate] a limiter begins again
// if it has expired or was lost. [Limiter.SetRate] with [KeepState] is for a rate that changes with
// a release of the program.
//
// A rate is [Overall], one for all clients together, or [PerClient], one for each [Client] (in
// Java: for each Redisson instance) by its ID.
//
// A grant counts from the time at which its call left. So no window of one interval holds grants of
// more than the rate with their whole calls, from the start of the call to its return. A call that
// takes longer than the interval returns permits that no longer count. A context with a shorter
// deadline prevents that.
//
// # Waiting
//
// [Limiter.Acquire] and [Limiter.TryAcquireWithin] wait. Callers that wait for one limiter on one
// Client are served first come, first served, a large request before smaller ones behind it.
// Between processes there is no order.
//
// The other calls never wait and do not queue. They may take permits for which other callers wait,
// so a large Acquire can starve behind them.
//
// Without [WithDenialCache], a caller is never denied on stale state. If the last known state would
// deny it, the Client asks Redis, with one call for all callers that arrive together.
//
// # Keys
//
// The configuration of the limiter "name" is the hash "name". Its state is "{name}:value", the free
// permits, and "{name}:permits", the grants. For a PerClient limiter each client has its own two
// state keys, which end in its ID. On a cluster, a name has no braces, or exactly one hash tag that is
// not empty: other names fail with [ErrCrossSlot] before anything is sent.
//
// An unused limiter stays in Redis unless its Rate has a KeepAlive or [Limiter.Expire] was called.
// Give a KeepAlive and an [InitialRate] to limiters that are created per user or per request. State
// never expires before its configuration.
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
// [Compatibility] compares each call with Redisson's, and lists which commands an ACL user needs.
//
// # Other policies
//
// Package [github.com/rratelimiter/rratelimiter/limit] has policies that need no Java interop, on
// the same [Client]: fixed and sliding windows, calendar quotas, token and leaky buckets. It can
// join several of them, and a [Limiter] of this package.
//
// [Compatibility]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/compatibility.md
// [Reliability]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/reliability.md
package rratelimiter
