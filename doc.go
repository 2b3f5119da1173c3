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
//   - [Limiter.TakeUpTo] takes as many permits as are free, for work in batches.
//
// [Limiter.Release] returns permits that were not used.
//
// # Model
//
// A limiter has a [Rate]: a number of permits per interval. Redis keeps every grant with its time.
// The permits of a grant return one interval later, each grant by itself: the window slides. In any
// window of one interval, at most the rate is granted; see Java, Clocks and Failover for the
// exceptions.
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
// takes longer than the interval returns permits that no longer count: if that matters, give the
// call a context with a shorter deadline.
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
// # Shared calls
//
// A caller that finds no other has a call to Redis of its own, and never waits for others. Callers that
// request permits of one limiter meanwhile share calls, even with different [Limiter] values. Each gets its
// own result and its own error.
//
// # Keys
//
// The configuration of the limiter "name" is the hash "name". Its state is "{name}:value", the free
// permits, and "{name}:permits", the grants. For a PerClient limiter each client has its own two
// state keys, which end in its ID. If a name contains "{", its braces stay as they are: the state
// of "{tenant7}:minute" is "{tenant7}:minute:value" and "{tenant7}:minute:permits".
//
// An unused limiter stays in Redis unless its Rate has a KeepAlive or [Limiter.Expire] was called.
// Give a KeepAlive and an [InitialRate] to limiters that are created per user or per request. State
// never expires before its configuration.
//
// # Java
//
// Redisson's release and keepState leave drift: the free permits and the grants do not match, and more than
// the rate can be granted. So does a client that changes the rate of a PerClient limiter for others. Each
// Client corrects drift after its first call of a limiter, after a change of its rate, and at most once in
// half an interval while it uses the limiter. A correction by another Client counts. A limiter with more than
// 8,192 grants is corrected when it has fewer.
//
// # Clocks
//
// A grant is dated by the clock of the calling host, as Redisson does, so that a Go process counts
// as one more Redisson instance. Keep the hosts' clocks synchronised: if they differ by d, a window
// can be shorter by d. [WithServerTime] dates grants by the server's clock.
//
// # Redis Cluster
//
// All keys of a limiter share a slot if its name has no braces, or exactly one hash tag that is not
// empty. Other names fail with [ErrCrossSlot] before anything is sent, where Redisson fails with
// CROSSSLOT. Rename and Copy work within a slot.
//
// # Failover
//
// Redis replies first and replicates later. A window that reaches over a failover holds the rate
// plus at most the grants that the new master had not received. A restart without the data can
// double one window, and loses the rate: calls set the [InitialRate], or fail with
// [ErrNotInitialized].
//
// [Reliability] states the promise with all exceptions, the expiry of state and the lifetime of
// calls.
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
// # Calls of Redisson's object
//
// These methods mirror the calls of Redisson's RObject and RExpirable, for programs that port or
// administer limiters. To limit calls, none is needed.
//
//   - [Limiter.Exists], [Limiter.Delete], [Limiter.Unlink], [Limiter.Touch], [Limiter.SizeInMemory]
//   - [Limiter.Rename], [Limiter.RenameNX], [Limiter.Copy]
//   - [Limiter.Expire], [Limiter.ExpireAt], [Limiter.ClearExpire], [Limiter.RemainTimeToLive],
//     [Limiter.ExpireTime]
//
// # Other policies
//
// Package [github.com/rratelimiter/rratelimiter/limit] has policies that need no Java interop, on
// the same [Client]: fixed and sliding windows, calendar quotas, token and leaky buckets. It can
// join several of them, and a [Limiter] of this package.
//
// [Reliability]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/reliability.md
package rratelimiter
