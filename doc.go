// Package rratelimiter is Redisson's RRateLimiter for Go, on rueidis. A Go program and a Java
// program that open the same limiter name on the same Redis share one limit: the same keys, the
// same bytes, the same results.
//
//	client := rratelimiter.New(redis) // on a rueidis.Client
//	limiter := client.Limiter("paid-api",
//		rratelimiter.InitialRate(rratelimiter.Rate{Permits: 100, Interval: time.Second}))
//	ok, err := limiter.TryAcquire(ctx, 1) // now or not at all
//	err = limiter.Acquire(ctx, 1)         // waits until ctx ends
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
// [Limiter.TryAcquire], [Limiter.Take] and [Limiter.TakeUpTo] never wait and do not queue. Each
// asks Redis itself, and may take permits for which other callers wait. So a large Acquire can
// starve behind them, in this process and in others. Permits that reach the process otherwise, with
// a lease, serve its waiting callers first.
//
// A caller is never denied on stale state. If the last known state would deny it, the Client asks
// Redis, with one call for all callers that arrive together. The Client notices permits that
// another process releases with its next call for the waiting callers. That call is made when the
// first of them could be served, or within a second of a new caller's arrival.
//
// # Shared calls
//
// Callers that request permits of one limiter at the same time share one call to Redis, even with
// different [Limiter] values. Each gets its own result and its own error. The requests of a call
// are decided in the order of their arrival. A lone caller never waits for other callers. On a slow
// link several calls may be in flight, and one may overtake another. A call has at most 1,024
// requests, so that it never blocks the server for long.
//
// # Denials from memory
//
// With [WithDenialCache] a denial is answered from memory until the permits return, and for at most
// the age that the option sets. For that long a denial may be stale if another client released
// permits or changed the rate. No permit is granted from memory.
//
// # Leases
//
// With [WithLease] a Client prefetches permits for a busy limiter and grants them from memory until
// the lease ends. The grant in Redis is dated at the lease's end. So the permits return at least an
// interval after each use, and no window holds more than the rate. A permit returns later by up to
// the length of the lease, which is at most a sixteenth of the interval. Java reads these grants
// like any others.
//
// Callers that wait in Acquire are served from a lease in their order, before later callers. A
// process that was stopped, or a machine that slept, finds the lease expired: the Client reads both
// the wall clock and the monotonic clock before it grants a permit. If the clock that dates grants
// jumps forward, leased permits can be used on top of the rate until the lease ends.
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
// State keys of a PerClient limiter:
//
//   - If the limiter can expire, the TTL of this client's keys is longer by the interval and a day.
//     Other clients can prolong the limiter and lengthen its interval, and cannot name these keys.
//   - Otherwise they stay until they are deleted, also after the client has ended.
//   - Grants of this client still count if the limiter expires and is set again within the
//     interval.
//   - If another client lengthens the interval by more than a day, these keys can expire too early
//     once. This client is then granted its rate once more.
//
// # Java
//
// Redisson's release and keepState leave drift: the free permits and the grants do not match, and
// more than the rate can be granted. So does a client that changes the rate of a PerClient limiter
// for others. Each Client corrects drift after its first call of a limiter, and then at most once in
// half an interval while it uses the limiter: permits of grants in the window are not free. A limiter
// with more than 8,192 grants is corrected when it has fewer.
//
// # Clocks
//
// A grant is dated by the clock of the calling host, as Redisson does, so that a Go process counts
// as one more Redisson instance. Keep the hosts' clocks synchronised. If a host's clock is ahead of
// the others by d, grants expire d too early for it, and its own grants expire d late for the
// others.
//
//   - If a clock jumps back, grants stay taken longer, by as much as it jumped. No call fails.
//   - If a clock is an hour ahead, its host takes the permits of the others an hour too early,
//     once. Its own grants stay taken an hour longer. Even then no more than the rate is granted at
//     once.
//
// The server's clock decides when a limiter expires. If it steps forward, a limiter that can expire
// does so early, and calls meet no rate. Its state expires with it or later. If other clients had
// prolonged the limiter, a step of more than a day can expire this client's PerClient state alone.
//
// [WithServerTime] dates grants by the server's clock. Then the skew between Go hosts does not
// matter. Java clients of the same limiter still use theirs. After a failover the clock is that of
// the new master.
//
// # Redis Cluster
//
// All keys of a limiter share a slot if its name has no braces, or exactly one hash tag that is not
// empty. Other names fail with [ErrCrossSlot] before anything is sent, where Redisson fails with
// CROSSSLOT. Rename and Copy work within a slot.
//
// rueidis follows the redirections of a cluster (MOVED, ASK) for as long as a call has a caller.
// If nodes disagree about a slot, the redirections do not end. If callers may have contexts that do
// not end, set ClusterOption.MaxMovedRedirections of the rueidis client, to 16 for instance.
//
// # Failover
//
// Redis replies first and replicates later. A failover loses the grants that the master had made
// and the replica had not received. A window that reaches over the failover holds the rate plus at
// most those grants, usually those of the last milliseconds. A restart without the data can double
// one window. It also loses the rate: calls set the [InitialRate], or fail with [ErrNotInitialized]
// until a rate is set. A failover by CLUSTER FAILOVER, a slot migration, and faults that only cut
// or slow calls lose nothing. See the
// [measurements].
//
// # Contexts
//
// Every call ends as soon as its context does, and TryAcquireWithin with its timeout: a timeout
// below the round trip grants nothing. A command that was sent may still be executed. If permits
// arrive for a caller that has left, the Client releases exactly that grant.
//
// When the last caller of a call has left, only the command that was sent continues. It is not sent
// again, unless it fetches a lease. It ends with its reply or when rueidis closes the connection:
// at once if the server refuses connections. Otherwise that takes up to its ConnWriteTimeout (10
// seconds by default), or its Dialer's timeout (5 seconds) while it connects. On a server that
// hangs, a call without a deadline lasts as long, or twice as long if it first releases leases. A
// release for a caller that has left, or of a lease, is repeated for up to a minute while a
// cluster's slot moves. An idle Client has no goroutine: the last one ends within a tenth of a
// second after the last command.
//
// The program's clock ([WithClock]), name mapper ([WithNameMapper]) or hook ([WithObserver]) may
// panic. The panic reaches the program: on the goroutine of a caller, or on a goroutine of the
// Client. Other callers that shared the call are not left waiting.
//
// # Observability
//
// [WithObserver] installs hooks for decisions, calls to Redis and waiting callers, for metrics and
// traces. A hook runs on the goroutine of the call that it reports, with the exception that
// [Observer] names, and holds no lock.
//
// # Errors
//
// Errors without a call to Redis are [ErrInvalidPermits], [ErrInvalidRate], [ErrInvalidName],
// [ErrInvalidOption], [ErrCrossSlot] and [ErrNoClient].
//
// Redis determines the others. A limiter without a rate, and without an InitialRate, is
// [ErrNotInitialized]. A request above the
// rate is [ErrPermitsExceedRate]. A server that is too old for a call is [ErrUnsupported]. A key of
// the limiter with other data is a [*StateError], with key and field. All other errors come from
// Redis or the network and are wrapped: *rueidis.RedisError is an error reply of the server.
//
// A script call whose reply was lost is never sent again, since Redis may have executed it. Its
// permits return after the interval.
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
// # Options
//
// Options of a Client begin with With. [InitialRate] is an option of a limiter. Options of one call
// are words: [KeepState], [Replace], [IfSet], [IfNotSet], [IfGreater], [IfLess].
//
// # Other policies
//
// Package [github.com/rratelimiter/rratelimiter/limit] has policies that need no Java interop, on
// the same [Client]: fixed and sliding windows, calendar quotas, token and leaky buckets. It can
// join several of them, and a [Limiter] of this package.
//
// [measurements]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/reliability.md
package rratelimiter
