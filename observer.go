package rratelimiter

import (
	"context"
	"time"
)

// Observer is told of what a [Client] does, in the manner of net/http/httptrace: a field that is nil is not called, and costs nothing.
// It is set with [WithObserver], for limiters of this package and of package limit.
//
// Hooks run on the goroutine of the call that they tell of, with the context that was given to it, before the call returns and with no
// lock held: one that blocks, or panics, does so for that caller alone, whose result is lost with the panic. The fields are not to be
// changed once the Observer is in use. Hooks of different calls run at the same time.
//
// A call that is refused before anything is asked, for permits below 1 or a context that has ended, is told to nobody.
type Observer struct {
	// Decision is told the result of each call that asks for permits: TryAcquire, Take, TryAcquireWithin, Acquire, and in
	// package limit TakeEach and Reserve too.
	Decision func(context.Context, DecisionInfo)

	// RedisCall is told of each call to Redis that asks for permits, by one of the callers whose requests it carried. Where all
	// of them have gone, and where it fetched a lease alone, a goroutine of its own tells of it with [context.Background].
	RedisCall func(context.Context, RedisCallInfo)

	// Waiting is told when a call of TryAcquireWithin or Acquire begins to wait for permits, and when it no longer does.
	Waiting func(context.Context, WaitingInfo)
}

// DecisionInfo is what came of a request for permits.
type DecisionInfo struct {
	Name    string        // of the limiter, as it was opened
	Policy  string        // "redisson", or what a limiter of package limit limits by: "token_bucket", "calendar+sliding_window"
	Permits int64         // that were asked for
	Granted bool          // false where Err is not nil
	Took    time.Duration // the whole call
	Waited  time.Duration // of that, in line or for a reservation's moment; 0 where the call never waits
	Source  Source        // who decided
	Err     error         // why there is no decision, as the caller gets it
}

// Source is who decided on a request.
type Source string

// The sources.
const (
	FromRedis  Source = "redis"  // Redis did, for this request
	FromMemory Source = "memory" // the denial cache did ([WithDenialCache])
	FromLease  Source = "lease"  // permits were leased already ([WithLease])
	FromNobody Source = ""       // an error, or the end of the context, came first
)

// RedisCallInfo is one call to Redis.
type RedisCallInfo struct {
	Name     string        // of the limiter, as one of the callers opened it
	Policy   string        // as in DecisionInfo
	Requests int           // that the call carried
	Permits  int64         // that they were for
	Leased   int64         // that the call brought for callers to come
	Took     time.Duration // until its answer was there
	Err      error         // why there is none, as those callers get it
}

// WaitingInfo is a change of how many wait for a limiter.
type WaitingInfo struct {
	Name   string // of the limiter, as it was opened
	Policy string // as in DecisionInfo
	Change int    // 1 where the call begins to wait, -1 where it ends
	Length int    // how many calls of this Client wait for that name, this change made
}

// WithObserver sets who is told of what the Client does. A nil Observer is nobody, which is the default.
func WithObserver(o *Observer) Option {
	return func(c *Client) { c.observer = o }
}
