package rratelimiter

import (
	"context"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// Observer is told of what a [Client] does, in the manner of net/http/httptrace: a field that is nil is not called, and costs nothing.
// It is set with [WithObserver], for limiters of this package and of package limit. The zero Observer is told nothing.
//
// Hooks run on the goroutine of the call that they tell of, with the context that was given to it or, where the call has a timeout, one
// below that, before the call returns and with no lock held: one that blocks, or panics, does so for that caller alone, whose result
// is lost with the panic, and of whose decision nobody is told then. Hooks of different calls run at the same time. They may call
// limiters, but tell of that too. The fields are read by WithObserver.
//
// Nobody is told of a call that is refused before anything is asked: for permits below 1, a name that cannot be used, a context that
// has ended, a limiter without reservations. Of one that is refused with [ErrPermitsExceedRate] the Observer is told, whoever knew it.
type Observer struct {
	// Decision is told the result of each call that asks for permits: TryAcquire, Take, TryAcquireWithin, Acquire, and in
	// package limit TakeEach, Reserve and Charge too.
	Decision func(context.Context, DecisionInfo)

	// RedisCall is told of each call to Redis that asks for permits, once, however many pages of a script it took, by one of the
	// callers whom it answered. Where it answered none, since all of them have gone, or wait on in line, or since it fetched a lease
	// alone, a goroutine of its own tells of it with [context.Background], and drops a panic.
	RedisCall func(context.Context, RedisCallInfo)

	// Waiting is told when a call of TryAcquireWithin or Acquire begins to wait, in line, if for no longer than Redis takes to answer,
	// or for a reservation's moment, and when it no longer does: always both, whatever panics.
	Waiting func(context.Context, WaitingInfo)
}

// DecisionInfo is what came of a request for permits.
//
// Waited is the time that it stood in line, the calls to Redis included, or waited for a reservation's moment. It is 0 for a call
// that never waits, and for one in line whose first answer of Redis was its last and which nobody stood before whom an answer had
// left there: it waited for Redis alone, as TryAcquire does.
type DecisionInfo struct {
	Name    string        // of the limiter, as it was opened
	Policy  string        // "redisson", or the kinds that a limiter of package limit limits by: "token_bucket", "calendar+sliding_window"
	Permits int64         // that were asked for
	Granted bool          // false where Err is not nil
	Charged bool          // by Charge of package limit, which takes permits whether they are free or not
	Took    time.Duration // the whole call
	Waited  time.Duration // of that, for permits that were not free: see below
	Source  Source        // who decided; FromNobody where Err is not nil
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
	Name     string        // of the limiter, as the caller opened it who tells of it, or without one as some caller of that limiter did
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
	Length int    // how many calls of this Client wait for that name and policies, this change made
}

// WithObserver sets who is told of what the Client does. A nil Observer is nobody, which is the default.
func WithObserver(o *Observer) Option {
	told := o.told()
	return func(c *Client) { c.settings.Observer = told }
}

// told is the hooks as the engine calls them.
func (o *Observer) told() *engine.Observer {
	if o == nil {
		return nil
	}
	told, hooks := new(engine.Observer), *o
	if hooks.Decision != nil {
		told.Decided = func(ctx context.Context, d engine.Decision) {
			info := DecisionInfo{d.Limiter.Name, d.Limiter.Policy, d.Permits, d.Granted, d.Charged, d.Took, d.Waited, FromNobody, d.Err}
			if d.Err == nil {
				info.Source = sources[d.From]
			}
			hooks.Decision(ctx, info)
		}
	}
	if hooks.RedisCall != nil {
		told.Called = func(ctx context.Context, c engine.Call) {
			hooks.RedisCall(ctx, RedisCallInfo{c.Limiter.Name, c.Limiter.Policy, c.Requests, c.Permits, c.Leased, c.Took, c.Err})
		}
	}
	if hooks.Waiting != nil {
		told.Waits = func(ctx context.Context, w engine.Waiting) {
			hooks.Waiting(ctx, WaitingInfo{w.Limiter.Name, w.Limiter.Policy, w.Change, w.Length})
		}
	}
	return told
}

var sources = [...]Source{engine.FromRedis: FromRedis, engine.FromMemory: FromMemory, engine.FromLease: FromLease}
