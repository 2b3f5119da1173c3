// Package limit has the ways to limit that Java does not have to share: policies that live in the program, one name for each
// user, tenant or address if need be, several of them at once. They run on a [rratelimiter.Client], in Redis, for all
// processes together, and share its calls: callers that ask for one name at the same moment go to Redis together.
//
//	logins := limit.New(client, "login:"+user, limit.FixedWindow{Permits: 5, Interval: time.Minute}, limit.FixedWindow{Permits: 20, Interval: time.Hour})
//	allowed, err := logins.TryAcquire(ctx, 1)
//
// # Several at once
//
// All policies of a limiter grant a request, or none takes anything. [Join] does the same for several limiters, of different
// names, and for those of package rratelimiter, whose rate Java programs share: a tenant's own limit and the quota of a paid
// API, say. One script call decides and takes. [Limiter.TakeEach] and [Limiter.Peek] tell what each policy said.
//
// # Afterwards
//
// [Limiter.Release] gives back what was taken and is not needed. [Limiter.Charge] takes what turned out to be needed, whether
// it is free or not: a request takes its least cost before it runs, and is charged with the rest when that is known. What
// is owed comes back first.
//
// # Time
//
// Policies count by the Client's clock: the host's, [rratelimiter.WithClock], or with [rratelimiter.WithServerTime] that of the
// Redis server, which makes hosts immune to the skew between their clocks. It has to be later than 1970 and before 2255.
//
// A clock that goes back, or is behind another one, stands still for a state until it has caught up with what that state has
// seen: no call fails, and nothing more is granted. A clock that goes ahead frees what comes back until then.
//
// A state expires by the server's clock, whatever the clients' clocks do:
//   - A [SlidingLog] counts each grant for an interval, a [SlidingWindow] for an interval and a cell.
//   - A [TokenBucket] and a [LeakyBucket] count it until it is refilled or has leaked, a [Smooth] until it is paid for.
//   - A [FixedWindow] counts its grants until an interval after the first of them.
//   - An aligned window and a [Calendar] unit count theirs until the length of the window after the last of them. A clock that is
//     set back later than that meets the same window again, and finds it empty.
//
// # Leases
//
// With [rratelimiter.WithLease] permits of a [FixedWindow] and a [Calendar], and of several of them or a [Join], are leased: what a
// lease takes is used before the window ends that counts it. The option has no effect on the others, which would grant more
// than they may, or less than they should: a bucket and a [Smooth] earn permits again between the moment at which they are leased
// and that at which they are used; a [SlidingLog] and a [SlidingWindow] count by the latest time that they have seen, which a
// lease that is dated at its end would set forward for everybody. Where one of several cannot lease, none does.
//
// A lease ends with its window by the clock of its Client. If that clock is behind another one by s, its process may use
// what it has leased of a window for s, and no more than a sixteenth of the window, after the other has opened the next one. With
// [rratelimiter.WithServerTime] a window ends for all at one moment.
//
// # Being told
//
// [rratelimiter.WithObserver] is told of these limiters as of others: of a reservation when it is made, or, where the call waits for its
// moment, after that; of Charge as of a decision that is always granted.
//
// # Keys
//
// Each policy of the name "user:7" has one key, "{user:7}:" and its kind and interval, in the cluster slot of the name. In a name
// that contains "{" the braces are the caller's, and its keys have two colons: "{tenant}:7::". No two names share a key. Two
// policies that differ in nothing but their permits would share one, which is refused. A key expires once nothing that it
// counts is left, and no name is kept in the process once no call for it is under way, so names may be as many as there are users.
//
// Another policy for the same name, after a deployment or a reload, takes effect with the next call. It keeps what was
// taken where kind and interval are the same; else it begins anew.
//
// # Errors
//
// They are those of package rratelimiter: [rratelimiter.ErrInvalidRate] for a policy's field that is out of range,
// [rratelimiter.ErrInvalidPermits], [rratelimiter.ErrPermitsExceedRate] for more than could ever be granted,
// [rratelimiter.ErrCrossSlot], *[rratelimiter.StateError] for a key that holds what is not a limiter's. Where Redis fails
// while a call is under way, its permits may be taken all the same; no call is sent twice.
package limit
