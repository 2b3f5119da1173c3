// Package limit provides rate limiting policies that are not part of Redisson. They are fixed and
// sliding windows, calendar quotas, token and leaky buckets, Guava's smooth limiter, and
// combinations. They run on a [rratelimiter.Client], in Redis, for all processes together. The rate
// is part of the program, not of the state in Redis, so a name needs no setup.
//
//	logins := limit.New(client, "login:"+user,
//		limit.FixedWindow{Permits: 5, Interval: time.Minute},
//		limit.FixedWindow{Permits: 20, Interval: time.Hour})
//	allowed, err := logins.TryAcquire(ctx, 1)
//
// Callers that request permits of one name at the same time share calls to Redis. The calls are
// those of package rratelimiter: [Limiter.TryAcquire] for a server, [Limiter.Acquire] for a program
// that limits its own work. For a limiter per user, tenant or address, [NewKeyed] builds keys and
// scripts once.
//
// [Choosing a policy] compares all policies:
//
//   - [SlidingLog], or [SlidingWindow] for large quotas, if no interval may hold more than the limit
//   - [FixedWindow] for the lowest cost, [Calendar] for a quota per day or month
//   - [TokenBucket] for a rate with bursts, [LeakyBucket] for evenly spaced work
//   - [Smooth] for Guava's RateLimiter, [Pause] for a stop of all processes,
//     [Penalty] for a time without grants after many denials
//   - [InFlight] for calls that run at once
//
// With an invalid policy, calls of [New] and [NewKeyed] fail. [Validate] finds it before, such as in
// a policy from a configuration.
//
// # Multiple policies
//
// A limiter with several policies grants a request by all of them or by none. [Join] does the same
// for several limiters with different names, limiters of package rratelimiter included: a tenant's
// own limit and the quota of a paid API, for instance. One script call decides and takes.
// [Limiter.TakeEach] and [Limiter.Peek] return a result for each policy.
//
// # Charge and refund
//
// [Limiter.Release] returns permits that are not needed, before their window is over.
// [Limiter.Charge] takes permits whether they are free or not. So a caller can take the least cost
// before a request runs, and charge the rest when it is known. No permit is granted before a debt is
// paid.
//
// A [Taken] holds what one call has taken, of one or several limiters, and settles the difference to
// its final cost: once, even if a reply of Redis is lost.
//
// # Clocks
//
// A [FixedWindow] and a [Calendar] count by the clock of Redis, which ends their windows. Other policies count
// by the Client's clock. The default is the host's clock; [rratelimiter.WithClock]
// sets another one. With [rratelimiter.WithServerTime] it is the clock of the Redis server, so that
// the skew between hosts does not matter. The time must be before 2255. Before 1970 time stands
// still.
//
// If a clock goes back or is behind another one, the time of a state stands still until that clock
// has caught up. No call fails. Permits return later by as much, and free permits are granted as
// before. A clock that goes forward frees the permits that return until then.
//
// A state expires by the server's clock, whatever the clients' clocks do:
//   - A [SlidingLog] counts each grant for an interval, a [SlidingWindow] for an interval and a
//     cell.
//   - A [TokenBucket] counts it until it is refilled, a [LeakyBucket] until it has leaked, a
//     [Smooth] until it is paid for.
//   - An [InFlight] counts each grant for its Lease.
//   - A [Pause] and a [Penalty] end when their key expires, by the clock of Redis.
//
// # Prefetches
//
// With [rratelimiter.WithPrefetch], a [FixedWindow], a [Calendar] and several of them prefetch permits.
// Prefetched permits are used before the end of the window that counts them. The other policies do not
// prefetch, and none does beside one of them. During a pause, nothing is prefetched.
//
// A prefetch is at most a sixteenth of its window.
//
// # Keys
//
// Each policy of the name "user:7" has one key, in the cluster slot of the name. The key is
// "{user:7}:", a word of the policy, and what must not be mixed, such as the interval. That of a
// [FixedWindow] is "{user:7}:window:60000". [Choosing a policy] lists them.
//
// If a name contains "{", its braces stay, and its keys have two colons: "{tenant}:7::". No two
// names share a key. Two policies of a name that differ only in their permits would share a key,
// which is an error. A key expires when it no longer counts any permit, so each user can have a
// name. That of a bucket or a Smooth expires a second later.
// [Taken.Settle] leaves "{user:7}:settled:" and 16 digits for half a minute.
//
// If a deployment changes the policies of a name, they take effect with the next call. A policy with the same
// key keeps its grants; others begin with all permits free. Under a lower rate, the taken permits return at that
// rate from its first call on that takes permits or is denied, unless the key has expired before. [Limiter.Peek]
// and [Limiter.Drain] prolong no state, so until then they report no time beyond the end of the key.
//
// # Middleware
//
// Packages httplimit, grpclimit and fallback limit requests and calls. Their words are here: a
// [FailureMode] decides while Redis cannot, an [Outcome] reports a decision, and [Named] names a policy
// for clients.
//
// # Errors
//
// The errors are those of package rratelimiter: [rratelimiter.ErrInvalidRate] for an invalid field
// of a policy, [rratelimiter.ErrInvalidPermits], [rratelimiter.ErrPermitsExceedRate] and
// [rratelimiter.ErrCrossSlot]. A key with other data is a *[rratelimiter.StateError]. If Redis
// fails during a call, its permits may be taken. No call whose reply was lost is sent
// again but that of [Taken.Settle], which Redis runs once.
//
// [Choosing a policy]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/choosing.md
package limit
