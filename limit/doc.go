// Package limit provides rate limiting policies that are not part of Redisson. They run on a
// [rratelimiter.Client], in Redis, for all processes together. The rate is part of the program, not of the
// state in Redis, so a name needs no setup.
//
//	logins := limit.New(client, "login:"+user,
//		limit.FixedWindow{Permits: 5, Interval: time.Minute},
//		limit.FixedWindow{Permits: 20, Interval: time.Hour})
//	allowed, err := logins.TryAcquire(ctx, 1)
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
// # Which call
//
// The calls are those of package rratelimiter: [Limiter.TryAcquire] for a server, [Limiter.Acquire] for a
// program that limits its own work. For a limiter per user, tenant or address, [NewKeyed] builds keys and
// scripts once.
//
// [Join] takes from several limiters with different names, limiters of package rratelimiter included: a tenant's
// own limit and the quota of a paid API, for instance. [Limiter.TakeEach] and [Limiter.Peek] return a result for
// each policy.
//
// [Limiter.Release] returns permits that are not needed, before their window is over. [Limiter.Charge] takes
// permits whether they are free or not. A [Taken] holds what one call has taken, of one or several limiters, and
// settles the difference to its final cost: once, even if a reply of Redis is lost.
//
// The words of packages httplimit, grpclimit and fallback are here: a [FailureMode] decides while Redis cannot,
// an [Outcome] reports a decision, and [Named] names a policy for clients.
//
// # Model
//
// A limiter grants a request by all of its policies or by none. One script call decides and takes.
//
// Each policy of the name "user:7" has one key, "{user:7}:" and what must not be mixed: that of a [FixedWindow] may
// be "{user:7}:window:60000". Two policies of a name that differ only in their permits would share a key, which is
// an error. A key expires when it no longer counts any permit, so each user can have a name.
//
// A FixedWindow and a [Calendar] count by the clock of Redis, other policies by that of the Client: see
// [Clock skew]. If a deployment changes the policies of a name, they take effect with the next call: see [Changes].
//
// # Waiting
//
// Callers wait as in package rratelimiter, whatever the policy. The times are those at which permits return by
// themselves: permits that others may return are not foreseen. A request that can never be granted fails at once.
//
// # Errors
//
// The errors are those of package rratelimiter: [rratelimiter.ErrInvalidRate] for an invalid field
// of a policy, [rratelimiter.ErrInvalidPermits], [rratelimiter.ErrPermitsExceedRate] and
// [rratelimiter.ErrCrossSlot]. With an invalid policy, every call of a limiter fails; [Validate] finds it before.
// A key with other data is a *[rratelimiter.StateError]. If Redis fails during a call, its permits may be taken.
// No call whose reply was lost is sent again but that of [Taken.Settle], which Redis runs once.
//
// [Choosing a policy]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/choosing.md
// [Changes]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/choosing.md#changes
// [Clock skew]: https://github.com/rratelimiter/rratelimiter/blob/main/docs/reliability.md#clock-skew
package limit
