// Package limit provides rate limiting policies that are not part of Redisson: fixed and sliding
// windows, calendar quotas, token and leaky buckets, Guava's smooth limiter, and several of them at
// once. They run on a [rratelimiter.Client], in Redis, for all processes together. The rate is part
// of the program, not of the state in Redis, so there is nothing to set up per name.
//
//	logins := limit.New(client, "login:"+user,
//		limit.FixedWindow{Permits: 5, Interval: time.Minute},
//		limit.FixedWindow{Permits: 20, Interval: time.Hour})
//	allowed, err := logins.TryAcquire(ctx, 1)
//
// Callers that ask for one name at the same time share one call to Redis.
//
// # Several policies
//
// A limiter with several policies grants a request by all of them or by none. [Join] does the same
// for several limiters with different names, limiters of package rratelimiter included: a tenant's
// own limit and the quota of a paid API, for instance. One script call decides and takes.
// [Limiter.TakeEach] and [Limiter.Peek] return a result for each policy.
//
// # Costs that are known later
//
// [Limiter.Release] returns permits that are not needed. [Limiter.Charge] takes permits whether
// they are free or not: take the least cost before a request runs, and charge the rest when it is
// known. A debt is paid before anything is granted.
//
// # Time
//
// Policies count by the Client's clock: the host's, [rratelimiter.WithClock], or with
// [rratelimiter.WithServerTime] that of the Redis server, so that the skew between hosts does not
// matter. It must be after 1970 and before 2255.
//
// If a clock goes back or is behind another one, the time of a state stands still until that clock
// has caught up: no call fails, and no more permits are granted. A clock that goes forward frees
// the permits that return until then.
//
// A state expires by the server's clock, whatever the clients' clocks do:
//   - A [SlidingLog] counts each grant for an interval, a [SlidingWindow] for an interval and a
//     cell.
//   - A [TokenBucket] counts it until it is refilled, a [LeakyBucket] until it has leaked, a
//     [Smooth] until it is paid for.
//   - A [FixedWindow] counts its grants until an interval after the first of them.
//   - An aligned window and a [Calendar] unit count theirs until the length of the window after the
//     last of them. If a clock is set back later than that, it meets the same window again, and
//     finds it empty.
//
// # Leases
//
// With [rratelimiter.WithLease], a [FixedWindow], a [Calendar] and several of them lease permits,
// which are used before the end of the window that counts them. The other policies do not lease: a
// bucket and a [Smooth] would earn permits again before the leased ones are used, and a
// [SlidingLog] and a [SlidingWindow] would have to count by the lease's end. If one of several
// policies does not lease, none does.
//
// A lease ends with its window by the clock of its Client. If that clock is behind another one by
// s, the process may use its lease for s after the other has opened the next window, and for at
// most a sixteenth of the window. With [rratelimiter.WithServerTime] a window ends for all Clients
// at the same time.
//
// # Observability
//
// The hooks of [rratelimiter.WithObserver] report these limiters too: a reservation when it is
// made, or after its wait if the call waits, and Charge as a decision that is always granted.
//
// # Keys
//
// Each policy of the name "user:7" has one key: "{user:7}:", its kind and its interval, in the
// cluster slot of the name. If a name contains "{", its braces stay, and its keys have two colons:
// "{tenant}:7::". No two names share a key. Two policies of a name that differ only in their
// permits would share a key, which is an error. A key expires when it counts nothing more, so there
// may be as many names as users.
//
// If a deployment changes the policies of a name, they take effect with the next call. A policy of
// the same kind and interval keeps its grants; others begin with all permits free.
//
// # Errors
//
// The errors are those of package rratelimiter: [rratelimiter.ErrInvalidRate] for an invalid field
// of a policy, [rratelimiter.ErrInvalidPermits], [rratelimiter.ErrPermitsExceedRate],
// [rratelimiter.ErrCrossSlot], and *[rratelimiter.StateError] for a key that holds other data. If
// Redis fails during a call, its permits may be taken; no call is sent twice.
package limit
