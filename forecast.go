package rratelimiter

import (
	"math/rand/v2"
	"sort"
	"time"

	"github.com/rratelimiter/rratelimiter/internal/engine"
)

// forecast is the state of a limiter in a reply of the acquire script, from which waiting times
// follow.
type forecast struct {
	now      int64 // of the call, Unix milliseconds
	rate     int64
	interval time.Duration
	reset    time.Duration // until all permits are free, if the reply has it
	free     int64         // below 0 if more than the rate is taken
	returns  []returning   // when permits return, the earliest first; at most a page
	leased   time.Duration // when the first leased ones return; 0 without leases
	expires  time.Duration // KeepAlive, 0 for none
	jitter   time.Duration // of waiters, as of WithWaitJitter
}

// leaseGrace is how long after the end of a lease its unused permits are expected, as in
// internal/include/waits.lua. Most return earlier.
const leaseGrace = 50 * time.Millisecond

// returning is the number of permits that return within a time, earlier ones included.
type returning struct {
	after   time.Duration
	permits int64
}

// add appends a pair of the script: milliseconds, and the permits that return then, below 0 for
// those of a lease.
func (f *forecast) add(after, permits int64) {
	if permits < 0 {
		permits = -permits
		if f.leased == 0 {
			f.leased = millis(after)
		}
	}
	if n := len(f.returns); n > 0 {
		permits += f.returns[n-1].permits
	}
	f.returns = append(f.returns, returning{millis(after), permits})
}

// Limit returns the rate.
func (f *forecast) Limit() int64 { return f.rate }

// Free returns the value.
func (f *forecast) Free() int64 { return f.free }

// after returns the time until permits are free. If not enough returns are known, it returns the
// last known one and false.
func (f *forecast) after(permits int64) (after time.Duration, known bool) {
	need := permits - f.free
	if need <= 0 || len(f.returns) == 0 {
		return 0, need <= 0
	}
	last := len(f.returns) - 1
	i := sort.Search(last, func(i int) bool { return f.returns[i].permits >= need })
	return f.returns[i].after, f.returns[i].permits >= need
}

// Denied returns the answer to a request for more permits than are free.
func (f *forecast) Denied(permits int64) (engine.Answer, bool) {
	after, known := f.after(permits)
	return engine.Answer{Limit: f.rate, Remaining: max(0, f.free), RetryAfter: after, ResetAfter: f.reset}, known
}

// Parts returns nil: a rate has no parts.
func (f *forecast) Parts(int64) []engine.Answer { return nil }

// redissonLag is how long after the permits are free Redisson's waiters ask, at the earliest.
const redissonLag = 3 * time.Millisecond

// Lag returns how much later than at RetryAfter a waiter asks. Permits return in a burst, and the
// clients that ask first take all of them. Redisson's timer adds some 10 ms to redissonLag, so a
// waiter that asked on time would always be the first.
func (f *forecast) Lag(int64) time.Duration {
	jitter := min(f.jitter, f.interval/5)
	if jitter <= 0 {
		return 0
	}
	return redissonLag + rand.N(jitter)
}

// Renew returns half of KeepAlive.
func (f *forecast) Renew() time.Duration {
	if f.expires == 0 {
		return engine.Never
	}
	return f.expires / 2
}

// Earliest returns the time until the last of the permits can be granted. Permits return one after
// another. If more than the rate is wanted, they return again an interval after they were granted
// again.
func (f *forecast) Earliest(ahead, permits int64) time.Duration {
	wanted := ahead + permits
	rounds := (wanted - 1) / f.rate
	after, _ := f.after(wanted - rounds*f.rate)
	if grace := min(leaseGrace, f.interval); f.leased > 0 && f.leased-grace < after {
		after = max(0, max(after, f.leased)-grace)
	}
	if f.interval > 0 && rounds > int64((engine.Never-after)/f.interval) {
		return engine.Never
	}
	return after + time.Duration(rounds)*f.interval
}
