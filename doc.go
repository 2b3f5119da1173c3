// Package rratelimiter is Redisson's RRateLimiter for Go, on rueidis. A Go program and a Java program that open the
// same limiter name on the same Redis share one limit: the same keys, the same bytes, the same answers.
//
// # Model
//
// A limiter has a [Rate]: so many permits in an interval. Every grant is kept in Redis with its time, and its permits
// come back once the interval has passed since, each grant by itself: the window slides. No window of one interval
// ever holds more than the rate.
//
// A grant counts from the time at which its call left. So no window of one interval holds grants of more than the rate
// with their whole calls, from the start of the call to its return. A call that takes longer than the interval returns
// permits that no longer count: if that matters, give the call a context with a shorter deadline.
//
// A rate is [Overall], one for all clients together, or [PerClient], one for each [Client] (in Java: for each Redisson
// instance) by its ID.
//
// [Limiter.Acquire] and [Limiter.TryAcquireWithin] wait. Callers that wait for one limiter on one Client are served first
// come, first served, a large request before smaller ones behind it. Between processes there is no order.
//
// [Limiter.TryAcquire] and [Limiter.Take] never wait and do not queue. Each asks Redis itself, and may take permits for
// which other callers wait. So a large Acquire can starve behind them, in this process and in others. Permits that reach
// the process otherwise, with a lease, serve its waiting callers first.
//
// A caller is never denied on stale state. If the last known state would deny it, the Client asks Redis, with one call for
// all callers that arrive together. Permits that another process gives back are noticed at the next call for the waiting
// callers: when the first of them could be served, or within a second of a new caller's arrival.
//
// # Sharing calls
//
// Callers that ask one limiter at the same moment through one Client go to Redis together, whichever [Limiter] value
// they hold. Each has its own answer and its own error, and those of one call are served in the order in which they
// came. A lone caller goes at once. While several calls are under way, on a slow link, they may overtake each other. A call
// carries at most 1,024 callers, so that no crowd keeps the server from others.
//
// [WithDenialCache] answers denials from memory until the permits return, and for at most the age that its user allows: so
// long a denial may be stale where another client released permits or changed the rate. No permit is granted from memory.
//
// # Leases
//
// With [WithLease] a Client takes permits for callers to come, as many as were asked for within the lease's length just before, and
// hands them out until the lease ends. They are dated at its end, in the member that the permits set gets: so each use lies at
// least an interval before the moment at which its permits are free again, and no window of uses ever holds more than the rate.
// A permit is away for up to the lease's length longer, a sixteenth of the interval at most. Java reads these grants as any
// others. Those who wait in Acquire are served from a lease in their order, before anybody who comes later. A process that is
// stopped, or a machine that sleeps, finds the lease over when it goes on: both of its clocks are looked at right before a permit
// is handed out. What was being handed out at that very moment is all that can be late. Where the clock by which grants are dated
// jumps forward, what was leased before can be used on top, until the lease ends.
//
// # Keys
//
// The configuration of the limiter "name" is the hash "name". Its state is "{name}:value", the free permits, and
// "{name}:permits", the grants; for PerClient limiters each client has a pair of its own, with its ID behind the key.
// In a name that contains "{" the braces are the caller's: "{tenant7}:minute" has its state in "{tenant7}:minute:value"
// and "{tenant7}:minute:permits".
//
// An unused limiter stays in Redis unless its Rate has a KeepAlive or [Limiter.Expire] was called; give a KeepAlive to
// limiters that are made for each user or each request. State never dies before its limiter. This client's own pair of a
// PerClient limiter outlives one that can expire by an interval and a day, since other clients can prolong the limiter
// and lengthen its interval, and cannot name the pair. So the pair of a client that is gone goes by itself where the
// limiter has a KeepAlive or an expiry, and stays where it has neither. What this client took counts where such a
// limiter expires and is set anew within the interval. An interval that another client lengthens by more than a day may
// forget such a pair once: that client is then granted its rate once more.
//
// # Clocks
//
// A grant is dated by the clock of the host that asks, as Redisson does, so that a Go process counts as one more
// Redisson instance. Keep the hosts' clocks synchronised: a host whose clock is ahead of the others by d sees grants
// leave the window d too early, and the grants that it makes leave d late for the others.
//
//   - A clock that jumps back makes grants stay longer, by as much as it jumped. Nothing fails.
//   - A clock that is ahead by an hour takes the permits of the others an hour too early, once, and theirs from it
//     stay an hour longer. Even then no more than the rate is granted at once.
//
// The server's clock decides when a limiter expires. Where it steps forward, one that can expire does so early, and calls
// fail with [ErrNotInitialized]; its state goes with it or after it. A limiter without an expiry has no state that could.
// Where others had prolonged a limiter meanwhile, a step of more than a day can end this client's pair of it alone.
//
// [WithServerTime] dates grants by the server's clock: then the skew between Go hosts does not matter. Java clients
// of the same limiter go on to use theirs. After a failover the clock is the new master's.
//
// # Redis Cluster
//
// All keys of a limiter share a slot if its name has no braces, or one hash tag that is not empty. Any other name is
// refused with [ErrCrossSlot] before anything is sent, where Redisson fails with CROSSSLOT. Rename and Copy work within
// a slot.
//
// rueidis follows the redirections of a cluster (MOVED, ASK) for as long as a call has a caller. Nodes that disagree
// redirect without end: set ClusterOption.MaxMovedRedirections of the rueidis client, to 16 for instance, if callers may
// have contexts that do not end.
//
// # Failovers
//
// Redis answers first and replicates afterwards. What a master granted and its replica had not received when it died
// is forgotten: a window that reaches over such a failover holds the rate and, on top, at most those grants, those of
// the last milliseconds mostly. A restart that lost the data can double one window, and takes the rate with it: calls
// fail with [ErrNotInitialized] until it is set again. A failover that was asked for, a slot that moves, and whatever
// merely cuts or slows calls, cost nothing. docs/reliability.md has the figures.
//
// # Contexts
//
// Every call ends as soon as its context does, and TryAcquireWithin with its timeout: one that is shorter than a round trip
// grants nothing. What had been sent may still be carried out. Permits that arrive for an acquire whose caller has gone are
// given back, by naming their grant.
//
// What goes on after its last caller has gone is the one command that was sent. Nothing is sent again, so it ends with the
// answer or when rueidis gives the connection up: at once where the server refuses connections, else after its
// ConnWriteTimeout (10 seconds by default), or its Dialer's timeout (5 seconds) where it was connecting. That is also how long
// a call without a deadline lasts on a server that hangs. Meanwhile new callers of the name gather for the next call; those
// who leave leave nothing behind. An idle Client has no goroutine: the last one ends within a tenth of a second.
//
// A clock ([WithClock]), name mapper ([WithNameMapper]) or hook ([WithObserver]) that panics does so in the call for which it was
// asked. Others who shared that call are served.
//
// # Being told
//
// [WithObserver] sets hooks that are told of every decision, every call to Redis that asks for permits, and everybody who begins or
// ceases to wait: what metrics and traces are made of. They run on the goroutine of the call that they tell of, and no lock is held.
//
// # Errors
//
// Wrong arguments, and names that cannot work, are refused before Redis is asked: [ErrInvalidPermits],
// [ErrInvalidRate], [ErrInvalidName], [ErrInvalidOption], [ErrCrossSlot], [ErrNoClient]. A limiter without a rate is
// [ErrNotInitialized], more permits than the rate [ErrPermitsExceedRate], a server too old for a call [ErrUnsupported].
// Keys that hold something that is no limiter's are a [*StateError], which names key and field. Everything else comes
// from Redis or the way to it and is wrapped: *rueidis.RedisError for what the server said.
//
// No script call is ever sent a second time after its reply was lost, since it may have been carried out. The permits
// of such a call return after the interval.
//
// # Other ways to limit
//
// Package [github.com/rratelimiter/rratelimiter/limit] has what Java does not have to share, on the same [Client]: fixed and
// sliding windows, calendar quotas, token and leaky buckets, several at once, and a [Limiter] of this package among them.
package rratelimiter
