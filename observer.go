package rratelimiter

import (
	"context"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// Observer has hooks that report what a [Client] does, in the manner of net/http/httptrace. A nil
// hook costs nothing. Set it with [WithObserver], for limiters of this package and of package
// limit.
//
// A hook runs on the goroutine of the call that it reports, with the context of that call, before the call
// returns. RedisCall may run on its own goroutine, see there. No lock is held. A hook that blocks or panics
// does so for that caller alone; a panic on its own goroutine ends the program. Hooks of different calls run
// at the same time. A hook may call limiters; these calls are reported too. WithObserver copies the fields.
//
// Calls with invalid arguments are not reported, except those that fail with
// [ErrPermitsExceedRate].
type Observer struct {
	// Decision reports the result of each call that asks for permits: TryAcquire, Take, TakeUpTo,
	// TryAcquireWithin, TakeWithin and Acquire; in package limit also TakeEach and Charge.
	Decision func(context.Context, DecisionInfo)

	// RedisCall reports each call to Redis that asks for permits, once, however many pages of a
	// script it took. It runs for one of the callers that the call served. If it served none (all
	// have left or still wait, or it prefetched permits), it runs on a goroutine of its own with
	// [context.Background].
	RedisCall func(context.Context, RedisCallInfo)

	// Waiting reports that a call of TryAcquireWithin, TakeWithin or Acquire begins to wait, and that it ends:
	// always both. A call waits while it is queued, if only for a reply of Redis.
	Waiting func(context.Context, WaitingInfo)

	// Places reports changes of the places of an InFlight of package limit: those that the Client holds, and those
	// that ended by their lease and not by a return. It runs on a goroutine of its own, except when a place begins,
	// which it reports on that of the call.
	Places func(PlacesInfo)
}

// DecisionInfo is the result of a request for permits.
type DecisionInfo struct {
	Name    string        // of the limiter, as it was opened
	Policy  string        // "redisson", or the policies of package limit: "token_bucket", "calendar+sliding_window"
	Permits int64         // requested; those that TakeUpTo took, if Granted
	Granted bool          // false if Err is not nil
	Charged bool          // by Charge of package limit, which takes permits that are not free, too
	Took    time.Duration // from the call to its result

	// Waited is the part of Took that the request was queued for permits, calls to Redis included.
	// It is 0 for calls that never wait, and for a call that was first in the queue and had its
	// result with the first reply.
	Waited time.Duration

	Source Source // FromNone if Err is not nil
	Err    error  // as the caller gets it
}

// Source is the origin of a decision.
type Source string

// The sources.
const (
	FromRedis    Source = "redis"    // a reply of Redis to this request
	FromMemory   Source = "memory"   // the denial cache ([WithDenialCache])
	FromPrefetch Source = "prefetch" // prefetched permits ([WithPrefetch])
	FromNone     Source = ""         // no decision: an error, or the context ended
)

// RedisCallInfo is one call to Redis.
type RedisCallInfo struct {
	Name       string        // of the limiter, as a caller opened it
	Policy     string        // as in DecisionInfo
	Requests   int           // of the call
	Permits    int64         // requested by them
	Prefetched int64         // permits that the call prefetched
	Took       time.Duration // until its reply
	Err        error         // as those callers get it

	// Initial reports that Redis had no rate, and that the call sent that of [InitialRate]: the
	// limiter is new, has expired, or was lost with the data of Redis.
	Initial bool
}

// WaitingInfo is a change of the number of waiting calls.
type WaitingInfo struct {
	Name   string // of the limiter, as it was opened
	Policy string // as in DecisionInfo
	Change int    // 1 when a call begins to wait, -1 when it ends
}

// PlacesInfo is a change of the places of an InFlight of package limit.
type PlacesInfo struct {
	Name string // of the limiter with the InFlight, in a Join that of the member

	// Change is 1 when a request of middleware or a Taken begins to hold a place, and -1 when Redis has returned it
	// or its lease has ended. It is 0 with Expired.
	Change int

	// Expired is the number of places whose lease had ended when a call of this Client removed them. Their
	// holders crashed, have lost Redis, or took longer than a lease without Renew. One Client reports each of them,
	// also of others. It may be too small if more than 256 have ended between two calls. It is 0 if no call
	// follows within another lease, since the key has expired then.
	Expired int
}

// WithObserver sets the hooks of the Client. A nil Observer is the default: no hooks.
func WithObserver(o *Observer) Option {
	hooks := o.hooks()
	return func(c *Client) { c.settings.Observer = hooks }
}

// hooks returns the hooks as the engine calls them.
func (o *Observer) hooks() *engine.Observer {
	if o == nil {
		return nil
	}
	result, hooks := new(engine.Observer), *o
	if hooks.Decision != nil {
		result.Decision = func(ctx context.Context, d engine.DecisionInfo) {
			info := DecisionInfo{
				Name: d.Limiter.Name, Policy: d.Limiter.Policy, Permits: d.Permits, Granted: d.Granted, Charged: d.Charged,
				Took: d.Took, Waited: d.Waited, Source: FromNone, Err: d.Err,
			}
			if d.Err == nil {
				info.Source = sources[d.From]
			}
			hooks.Decision(ctx, info)
		}
	}
	if hooks.RedisCall != nil {
		result.RedisCall = func(ctx context.Context, c engine.RedisCallInfo) {
			hooks.RedisCall(ctx, RedisCallInfo{
				Name: c.Limiter.Name, Policy: c.Limiter.Policy, Requests: c.Requests, Permits: c.Permits, Prefetched: c.Prefetched,
				Took: c.Took, Err: c.Err, Initial: c.Initial,
			})
		}
	}
	if hooks.Waiting != nil {
		result.Waiting = func(ctx context.Context, w engine.WaitingInfo) {
			hooks.Waiting(ctx, WaitingInfo{Name: w.Limiter.Name, Policy: w.Limiter.Policy, Change: w.Change})
		}
	}
	if hooks.Places != nil {
		result.Places = func(p engine.PlacesInfo) { hooks.Places(PlacesInfo(p)) }
	}
	return result
}

var sources = [...]Source{engine.FromRedis: FromRedis, engine.FromMemory: FromMemory, engine.FromPrefetch: FromPrefetch}
